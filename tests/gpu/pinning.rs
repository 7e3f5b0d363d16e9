//! Where the workers of a device are pinned.
#![cfg(target_os = "linux")]

use crate::common::cores::own_cores;
use crate::model::Model;
use crate::over;
use seriatim::{Context, Property, RunContext};

/// The workers of a device, for kernels and for copies, if the settings pin workers.
#[test]
fn workers_of_a_device_are_pinned_near_it() {
    let all = own_cores();
    for near in [all[0], *all.last().unwrap()] {
        let model = Model::new(1, 1, 4);
        model.world().near = vec![near];
        for (pins, expected) in [(true, vec![near]), (false, all.clone())] {
            let engine = over(&model).pin(pins).gpu_workers(1).build().unwrap();
            for property in [Property::Normal, Property::CopyToGpu] {
                let (tell, told) = std::sync::mpsc::channel();
                let look = move |_: &RunContext<'_>| tell.send(own_cores()).unwrap();
                engine.op("where").context(Context::gpu(0)).property(property).push(look).unwrap();
                engine.wait_for_all().unwrap();
                assert_eq!(told.recv().unwrap(), expected, "pinned: {pins}, {property:?}");
            }
        }
    }
}
