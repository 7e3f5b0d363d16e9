//! Operations on tiles, pushed to an engine: [`Algebra`].

use crate::tiles::{Matrix, On, Operand, Scratch, TileOps};
use seriatim::gpu::{DeviceData, DeviceHandle, PinnedData};
use seriatim::{Context, Engine, Error, Name, RunContext};
use std::sync::Arc;

/// A tile in memory of a device, and the variable that stands for it.
#[derive(Clone, Debug)]
pub struct DeviceTile {
    pub data: DeviceData<f64>,
    pub rows: usize,
    pub columns: usize,
}

impl DeviceTile {
    /// A tile of zeros.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn zeros(gpu: &DeviceHandle, rows: usize, columns: usize) -> Result<DeviceTile, Error> {
        Ok(DeviceTile { data: DeviceData::zeros(gpu, rows * columns)?, rows, columns })
    }

    /// The matrix, for an operation that has declared to read the tile.
    ///
    /// # Errors
    /// Those of [`DeviceData::read_on`].
    pub fn read_on(&self, run: &RunContext<'_>) -> Result<Matrix, Error> {
        Ok(Matrix::whole(self.data.read_on(run)?, self.rows, self.columns))
    }

    /// The matrix, for an operation that has declared to change the tile.
    ///
    /// # Errors
    /// Those of [`DeviceData::write_on`].
    pub fn write_on(&self, run: &RunContext<'_>) -> Result<Matrix, Error> {
        Ok(Matrix::whole(self.data.write_on(run)?, self.rows, self.columns))
    }
}

/// Where an operation's closure queues, on the device on which it runs.
///
/// # Errors
/// If it runs nowhere near a device.
pub fn on<'a>(run: &'a RunContext<'a>) -> Result<On<'a>, String> {
    let stream = run.stream().ok_or("this operation has no stream")?;
    Ok(On { stream, run: Some(run) })
}

/// What the operations on the tiles of one engine share.
pub struct Algebra {
    engine: Engine,
    context: Context,
    ops: Arc<dyn TileOps>,
    work: DeviceData<f64>,
    /// How each factorisation went, by its step.
    info: DeviceData<i32>,
    said: PinnedData<i32>,
}

impl Algebra {
    /// With room for factorisations of tiles of `n` rows at most, of so many steps.
    ///
    /// # Errors
    /// If there is no memory, or the library says so.
    pub fn new(gpu: &DeviceHandle, ops: &Arc<dyn TileOps>, n: usize, steps: usize) -> Result<Algebra, String> {
        let say = |error: Error| error.to_string();
        Ok(Algebra {
            engine: gpu.engine().clone(),
            context: gpu.context(),
            ops: Arc::clone(ops),
            work: DeviceData::zeros(gpu, ops.scratch(n)?).map_err(say)?,
            info: DeviceData::zeros(gpu, steps).map_err(say)?,
            said: PinnedData::zeros(gpu, steps).map_err(say)?,
        })
    }

    /// Pushes the factorisation of a tile. All of them share the room where they work, so they are
    /// one after another, as they are in a Cholesky anyway.
    ///
    /// # Errors
    /// If the engine takes no operation.
    pub fn potrf(&self, name: impl Into<Name>, step: usize, a: &DeviceTile) -> Result<(), Error> {
        let (ops, work, info, tile) = (Arc::clone(&self.ops), self.work.clone(), self.info.clone(), a.clone());
        let operation = self.engine.op(name).context(self.context);
        operation.write(&a.data).write(&self.work).write(&self.info).push(move |run| {
            let say = |error: Error| error.to_string();
            let a = tile.write_on(run).map_err(say)?;
            let address = info.write_on(run).map_err(say)?.raw().cast::<i32>().wrapping_add(step);
            let scratch = Scratch {
                work: work.write_on(run).map_err(say)?,
                length: work.len(),
                info: seriatim::gpu::RawMemory::new(address.cast()),
            };
            // SAFETY: the operation has declared what it uses, of its own device.
            unsafe { ops.potrf(on(run)?, a, scratch) }
        })
    }

    /// Pushes A ← A L⁻ᵀ.
    ///
    /// # Errors
    /// If the engine takes no operation.
    pub fn trsm(&self, name: impl Into<Name>, l: &DeviceTile, a: &DeviceTile) -> Result<(), Error> {
        // SAFETY: `push` has the matrices declared.
        self.push(name, &[l], a, |ops, on, from, to| unsafe { ops.trsm(on, from[0], to) })
    }

    /// Pushes A ← A − L Lᵀ, of the lower half.
    ///
    /// # Errors
    /// If the engine takes no operation.
    pub fn syrk(&self, name: impl Into<Name>, l: &DeviceTile, a: &DeviceTile) -> Result<(), Error> {
        // SAFETY: as above.
        self.push(name, &[l], a, |ops, on, from, to| unsafe { ops.syrk(on, from[0], to) })
    }

    /// Pushes C ← `alpha` A B + `beta` C; either factor may be transposed.
    ///
    /// # Errors
    /// If the engine takes no operation.
    pub fn gemm(
        &self,
        name: impl Into<Name>,
        alpha: f64,
        (a, a_transposed): (&DeviceTile, bool),
        (b, b_transposed): (&DeviceTile, bool),
        beta: f64,
        c: &DeviceTile,
    ) -> Result<(), Error> {
        self.push(name, &[a, b], c, move |ops, on, from, to| {
            let (a, b): (Operand, Operand) = ((from[0], a_transposed), (from[1], b_transposed));
            // SAFETY: as above.
            unsafe { ops.gemm(on, alpha, a, b, beta, to) }
        })
    }

    /// Pushes Y ← L⁻¹ Y, or L⁻ᵀ Y.
    ///
    /// # Errors
    /// If the engine takes no operation.
    pub fn solve(&self, name: impl Into<Name>, l: &DeviceTile, transposed: bool, y: &DeviceTile) -> Result<(), Error> {
        // SAFETY: as above.
        self.push(name, &[l], y, move |ops, on, from, to| unsafe { ops.solve(on, from[0], transposed, to) })
    }

    /// Waits for all that was pushed, and checks that every factorisation went well.
    ///
    /// # Errors
    /// What has failed.
    pub fn finish(&self) -> Result<(), String> {
        let say = |error: Error| error.to_string();
        self.engine.copy(&self.info, &self.said).map_err(say)?;
        self.engine.wait_for_all().map_err(say)?;
        match self.said.read().map_err(say)?.iter().position(|info| *info != 0) {
            Some(step) => Err(format!("the tile of step {step} is not positive definite")),
            None => Ok(()),
        }
    }

    fn push(
        &self,
        name: impl Into<Name>,
        reads: &[&DeviceTile],
        write: &DeviceTile,
        body: impl FnOnce(&dyn TileOps, On<'_>, &[Matrix], Matrix) -> Result<(), String> + Send + 'static,
    ) -> Result<(), Error> {
        let (ops, to) = (Arc::clone(&self.ops), write.clone());
        let from: Vec<DeviceTile> = reads.iter().map(|tile| (*tile).clone()).collect();
        let operation = self.engine.op(name).context(self.context).reads(reads.iter().map(|tile| &tile.data));
        operation.write(&write.data).push(move |run| {
            let say = |error: Error| error.to_string();
            let lent: Vec<Matrix> = from.iter().map(|tile| tile.read_on(run)).collect::<Result<_, _>>().map_err(say)?;
            body(&*ops, on(run)?, &lent, to.write_on(run).map_err(say)?)
        })
    }
}
