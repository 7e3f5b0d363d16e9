//! This engine.

use seriatim::{
    Capture, Context, Engine, Error, Graph, IdlePolicy, Kind, Name, Operator, Pipeline, Property, Variable,
};

use std::time::Duration;

use super::accesses::{distinct, Accesses};
use super::{Runner, Shared, Style};
use crate::program::Program;

/// An engine of ours, and what was prepared on it.
pub struct Seriatim {
    style: Style,
    /// What its operations are declared to be.
    property: Property,
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

/// How an engine of ours is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Setting {
    /// As `Engine::new()` sets it.
    Default,
    /// As [`Setting::Default`], but operations are declared to be short.
    Declared,
    /// The per-device engine with everything off by which a body can run on the thread that pushed
    /// it.
    Shipped,
    /// The per-device engine with workers that never sleep, and waits that run nothing.
    Spinning,
    /// The per-device engine, which runs short operations inside their pushes.
    Inline,
    /// An engine of that kind, otherwise as it is by default.
    Kind(Kind),
}

/// What [`Setting::Inline`] takes to be a short operation.
const INLINE_BELOW: Duration = Duration::from_nanos(300);

impl Seriatim {
    pub(super) fn start(setting: Setting, workers: usize, style: Style) -> Result<Seriatim, String> {
        let builder = |kind| Engine::builder().kind(kind).cpu_workers(workers);
        let engine = match setting {
            Setting::Default | Setting::Declared => Engine::new(),
            Setting::Shipped => builder(Kind::PerDevice).waiters_help(false).inline_below(Duration::ZERO).build(),
            Setting::Spinning => builder(Kind::PerDevice).waiters_help(false).idle(IdlePolicy::Spin).build(),
            Setting::Inline => builder(Kind::PerDevice).inline_below(INLINE_BELOW).build(),
            Setting::Kind(kind) => builder(kind).inline_below(Duration::ZERO).build(),
        };
        let engine = engine.map_err(|error| error.to_string())?;
        let made = engine.settings().cpu_workers;
        if matches!(setting, Setting::Default | Setting::Declared) && made != workers {
            return Err(format!("Engine::new() has {made} workers instead of {workers}"));
        }
        let property = if setting == Setting::Declared { Property::Short } else { Property::Normal };
        Ok(Seriatim { property, ..Seriatim::on(engine, style) })
    }

    /// Programs on an engine that the caller has set up.
    pub fn on(engine: Engine, style: Style) -> Seriatim {
        Seriatim { style, property: Property::Normal, prepared: None, engine }
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
            Style::Dynamic => prepared.push_closures(&self.engine, self.property, prepared.places()),
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
            self.engine.new_operator(body, reads, writes, self.property, "benchmark")
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

    fn shared(&self) -> Option<&(dyn Shared + '_)> {
        (self.style == Style::Dynamic).then_some(self)
    }
}

impl Shared for Seriatim {
    fn push_part(&self, part: usize, parts: usize) {
        let prepared = self.prepared.as_ref().expect("a prepared program");
        let places = prepared.places().skip(part).step_by(parts);
        prepared.push_closures(&self.engine, self.property, places).expect("a program without failures");
    }

    fn wait(&self) {
        self.engine.wait_for_all().expect("a program without failures");
    }
}

/// Captures the whole program.
fn capture(engine: &Engine, program: &'static Program, accesses: &Accesses<Variable>) -> Result<Graph, Error> {
    engine.capture(|capture| record(capture, program, accesses)).map(|(graph, ())| graph)
}

/// Captures the whole program as a pipeline, on variables of its own.
pub(crate) fn pipeline(engine: &Engine, program: &'static Program) -> Result<Pipeline, Error> {
    let accesses = Accesses::new(program, || engine.new_variable());
    engine.capture_pipeline(|capture| record(capture, program, &accesses)).map(|(pipeline, ())| pipeline)
}

fn record(capture: &mut Capture, program: &'static Program, accesses: &Accesses<Variable>) -> Result<(), Error> {
    program.sequence().iter().copied().try_for_each(|operation| {
        let captured = capture.op("benchmark").reads(accesses.reads(operation).iter().copied());
        let captured = captured.writes(accesses.writes(operation).iter().copied());
        captured.push(move |_| program.execute(operation))
    })
}

impl Prepared {
    /// The operations to push, with their places.
    fn places(&self) -> impl Iterator<Item = (usize, u32)> + use<> {
        self.program.sequence().iter().copied().enumerate()
    }

    #[inline]
    fn push_closures(
        &self,
        engine: &Engine,
        property: Property,
        places: impl Iterator<Item = (usize, u32)>,
    ) -> Result<(), Error> {
        let (program, accesses) = (self.program, &self.accesses);
        let (name, context) = (Name::from("benchmark"), Context::default());
        for (place, operation) in places {
            program.pace(place);
            let body = move |_: &seriatim::RunContext<'_>| program.execute(operation);
            let (reads, writes) = (accesses.reads(operation), accesses.writes(operation));
            engine.push_sync(body, context, reads, writes, property, 0, name)?;
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
}
