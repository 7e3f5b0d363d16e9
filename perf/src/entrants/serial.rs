//! A loop that runs the operations in the order of their pushes, without any engine: the floor.

use super::Runner;
use crate::program::Program;

/// The loop, and the program that it runs.
#[derive(Default)]
pub struct Serial {
    program: Option<&'static Program>,
}

impl Runner for Serial {
    fn prepare(&mut self, program: &'static Program) -> Result<(), String> {
        self.program = Some(program);
        Ok(())
    }

    fn run(&mut self) {
        let program = self.program.expect("a prepared program");
        for (place, operation) in program.sequence().iter().copied().enumerate() {
            program.pace(place);
            program.execute(operation);
        }
    }

    fn version(&self) -> String {
        String::from(env!("CARGO_PKG_VERSION"))
    }
}
