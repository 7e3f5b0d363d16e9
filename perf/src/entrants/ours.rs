//! This engine.

use seriatim::{Context, Engine, Error, Graph, Kind, Name, Operator, Property, Variable};

use std::time::Duration;

use super::accesses::{distinct, Accesses};
use super::{Runner, Style};
use crate::program::Program;

/// An engine of ours, and what was prepared on it.
pub struct Seriatim {
    style: Style,
    prepared: Option<Prepared>,
    engine: Engine,
}

struct Prepared {
    program: &'static Program,
    accesses: Accesses<Variable>,
    /// One for each distinct operation, in the style of operators.
    operators: Vec<Operator>,
    /// The whole program, in the style of graphs.
    graph: Option<Graph>,
}

impl Seriatim {
    pub(super) fn start(kind: Kind, workers: usize, inline_below: Duration, style: Style) -> Result<Seriatim, String> {
        let builder = Engine::builder().kind(kind).cpu_workers(workers).inline_below(inline_below);
        let engine = builder.build().map_err(|error| error.to_string())?;
        Ok(Seriatim::on(engine, style))
    }

    /// Programs on an engine that the caller has set up.
    pub fn on(engine: Engine, style: Style) -> Seriatim {
        Seriatim { style, prepared: None, engine }
    }

    /// The engine itself.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Pushes the whole program that was prepared, and waits for nothing.
    ///
    /// # Errors
    /// Those of a push.
    ///
    /// # Panics
    /// If no program was prepared.
    #[inline]
    pub fn push(&self) -> Result<(), Error> {
        let prepared = self.prepared.as_ref().expect("a prepared program");
        match self.style {
            Style::Operators => prepared.push_operators(&self.engine),
            Style::Batches => prepared.push_batches(&self.engine),
            Style::Dynamic => prepared.push_closures(&self.engine),
            Style::Graph => prepared.graph.as_ref().map_or(Ok(()), Graph::replay),
        }
    }
}

impl Runner for Seriatim {
    fn prepare(&mut self, program: &'static Program) -> Result<(), String> {
        let accesses = Accesses::new(program, || self.engine.new_variable());
        let operator = |operation| {
            let body = move |_: &seriatim::RunContext<'_>| program.execute(operation);
            let (reads, writes) = (accesses.reads(operation), accesses.writes(operation));
            self.engine.new_operator(body, reads, writes, Property::Normal, "benchmark")
        };
        let operators: Result<Vec<_>, Error> = match self.style {
            Style::Operators => distinct(program).map(operator).collect(),
            _ => Ok(Vec::new()),
        };
        let operators = operators.map_err(|error| error.to_string())?;
        let graph = match self.style {
            Style::Graph if program.is_paced() => {
                return Err(String::from("a graph starts as a whole: it has no pushes to pace"));
            }
            Style::Graph => Some(capture(&self.engine, program, &accesses).map_err(|error| error.to_string())?),
            _ => None,
        };
        self.prepared = Some(Prepared { program, accesses, operators, graph });
        Ok(())
    }

    fn run(&mut self) {
        self.push().and_then(|()| self.engine.wait_for_all()).expect("a program without failures");
    }

    fn version(&self) -> String {
        String::from(env!("CARGO_PKG_VERSION"))
    }
}

/// Captures the whole program.
fn capture(engine: &Engine, program: &'static Program, accesses: &Accesses<Variable>) -> Result<Graph, Error> {
    let record = |capture: &mut seriatim::Capture<'_>| {
        program.sequence().iter().copied().try_for_each(|operation| {
            let captured = capture.op("benchmark").reads(accesses.reads(operation).iter().copied());
            let captured = captured.writes(accesses.writes(operation).iter().copied());
            captured.push(move |_| program.execute(operation))
        })
    };
    engine.capture(record).map(|(graph, ())| graph)
}

impl Prepared {
    fn push_closures(&self, engine: &Engine) -> Result<(), Error> {
        let (program, accesses) = (self.program, &self.accesses);
        let (name, context) = (Name::from("benchmark"), Context::default());
        for (place, operation) in program.sequence().iter().copied().enumerate() {
            program.pace(place);
            let body = move |_: &seriatim::RunContext<'_>| program.execute(operation);
            let (reads, writes) = (accesses.reads(operation), accesses.writes(operation));
            engine.push_sync(body, context, reads, writes, Property::Normal, 0, name)?;
        }
        Ok(())
    }

    fn push_operators(&self, engine: &Engine) -> Result<(), Error> {
        for (place, operation) in self.program.sequence().iter().enumerate() {
            self.program.pace(place);
            engine.push(&self.operators[*operation as usize], Context::default(), 0)?;
        }
        Ok(())
    }

    fn push_batches(&self, engine: &Engine) -> Result<(), Error> {
        let (program, accesses) = (self.program, &self.accesses);
        engine.batch(|batch| {
            for (place, operation) in program.sequence().iter().copied().enumerate() {
                program.pace(place);
                let member = batch.op("benchmark").reads(accesses.reads(operation).iter().copied());
                let member = member.writes(accesses.writes(operation).iter().copied());
                member.push(move |_| program.execute(operation))?;
            }
            Ok(())
        })?
    }
}
