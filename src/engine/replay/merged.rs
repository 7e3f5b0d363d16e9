//! Merging the operations of a capture that a device does as one: each row of them becomes one
//! operation, whose closure is a [`DeviceGraph`].
//!
//! Used by `replay/assemble.rs`, on the thread that captures, before anything else is made of the
//! operations. This file says which operations may be joined at all, and `graph/merge.rs` which of
//! those go together.

use crate::device::Device;
use crate::engine::core::Core;
use crate::engine::gpu::devices::Gpu;
use crate::engine::replay::assemble::{Captured, Joins, Recording};
use crate::engine::replay::device_graph::{Captive, DeviceGraph};
use crate::engine::replay::program::{sync, Body};
use crate::graph::edges::{predecessors, NodeUse};
use crate::graph::merge::merge;
use crate::operation::context::RunContext;
use crate::operation::name::Name;
use crate::operation::property::Property;
use std::sync::Arc;

impl Recording {
    /// Merges operations that a device does as one.
    pub(super) fn merged(mut self, core: &Arc<Core>) -> Recording {
        let kind = |captured: &Captured| {
            let Captured { context, property, priority, .. } = *captured;
            let has_stream = context.device() == Device::Gpu && !property.runs_on_pusher();
            let joins = captured.joins != Joins::No && has_stream && matches!(captured.body, Body::Sync(_));
            // A copy that follows others is put on their stream.
            let property = if captured.joins == Joins::Follows { Property::Normal } else { property };
            (joins && core.gpu(context).backend.graphs().is_some()).then_some((context, property, priority))
        };
        let kinds: Vec<_> = self.recorded.iter().map(kind).collect();
        let begins: Vec<bool> = self.recorded.iter().map(|captured| captured.joins == Joins::Asks).collect();
        if !kinds.iter().zip(&begins).any(|(kind, begins)| kind.is_some() && *begins) {
            return self;
        }
        let uses: Vec<Vec<NodeUse>> = self.uses().into_iter().map(<[NodeUse]>::to_vec).collect();
        let slices: Vec<&[NodeUse]> = uses.iter().map(Vec::as_slice).collect();
        let rows = merge(&predecessors(&slices, self.variables.len()), &kinds, &begins);
        let mut recorded: Vec<Option<Captured>> = self.recorded.drain(..).map(Some).collect();
        (self.uses, self.ends) = (Vec::new(), Vec::new());
        for row in rows {
            let mut all: Vec<NodeUse> = row.iter().flat_map(|of| slices[*of as usize]).copied().collect();
            // A variable that one of them changes is changed.
            all.sort_by_key(|used| (used.variable, !used.writes));
            all.dedup_by_key(|used| used.variable);
            self.uses.extend(all);
            self.ends.push(self.uses.len() as u32);
            let mut operations =
                row.iter().filter_map(|of| Some((recorded[*of as usize].take()?, slices[*of as usize])));
            match kinds[row[0] as usize].filter(|_| begins[row[0] as usize]) {
                Some(_) => {
                    let one = self.as_one(core, operations.collect());
                    self.recorded.push(one);
                }
                None => self.recorded.extend(operations.next().map(|(captured, _)| captured)),
            }
        }
        self
    }

    /// The one operation that stands for operations of a device.
    fn as_one(&self, core: &Arc<Core>, operations: Vec<(Captured, &[NodeUse])>) -> Captured {
        let Captured { name, context, property, priority, .. } = operations[0].0;
        let name = match operations.len() {
            1 => name,
            count => Name::from(format!("{} and {} more", name.as_str(), count - 1)),
        };
        let captive = |(captured, uses): (Captured, &[NodeUse])| {
            let Body::Sync(call) = captured.body else { return None };
            let index = |used: &NodeUse| (self.variables[used.variable as usize].variable.index, used.writes);
            Some(Captive { call: call.into_inner(), name: captured.name, uses: uses.iter().map(index).collect() })
        };
        let captives = operations.into_iter().filter_map(captive).collect();
        let (gpu, class) = (core.gpu(context), Gpu::class(property, priority));
        let mut graph = DeviceGraph::new(core, gpu, class, captives, Arc::clone(&self.changes));
        let body = sync(move |run: &RunContext<'_>| graph.run(run));
        Captured { body, name, context, property, priority, joins: Joins::No }
    }
}
