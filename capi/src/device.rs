//! Where operations run.

use crate::error::Failure;
use crate::input::bad;
use seriatim::{Context, Device};

/// The kinds of devices.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SeriatimDevice {
    /// The processor.
    Cpu = 0,
    /// The processor, on memory that a GPU can copy from and to without the processor.
    CpuPinned = 1,
    /// A GPU.
    Gpu = 2,
}

/// Where an operation runs: a device and its number. All zeros mean any worker of the processor; on
/// the per-device engine a processor number of 1 and more prefers one worker, always the same for
/// the same number.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SeriatimContext {
    /// A `SeriatimDevice`. A plain number, so that a wrong one can be refused.
    pub device: u32,
    /// The number of the device, 0 to 1023.
    pub id: u32,
}

#[cold]
fn no_device(number: u32) -> Failure {
    let [cpu, pinned, gpu] = [SeriatimDevice::Cpu, SeriatimDevice::CpuPinned, SeriatimDevice::Gpu].map(|it| it as u32);
    bad(format!(
        "{number} is not a kind of device: there are {cpu} (processor), {pinned} (processor, pinned memory) and {gpu} (GPU)"
    ))
}

impl SeriatimContext {
    #[inline]
    pub(crate) fn resolve(self) -> Result<Context, Failure> {
        const CPU: u32 = SeriatimDevice::Cpu as u32;
        const CPU_PINNED: u32 = SeriatimDevice::CpuPinned as u32;
        const GPU: u32 = SeriatimDevice::Gpu as u32;
        match self.device {
            CPU => Ok(Context::cpu(self.id)),
            CPU_PINNED => Ok(Context::cpu_pinned(self.id)),
            GPU => Ok(Context::gpu(self.id)),
            other => Err(no_device(other)),
        }
    }
}

impl From<Context> for SeriatimContext {
    fn from(context: Context) -> SeriatimContext {
        let device = match context.device() {
            Device::Cpu => SeriatimDevice::Cpu,
            Device::CpuPinned => SeriatimDevice::CpuPinned,
            // Of those that this version knows, the last.
            _ => SeriatimDevice::Gpu,
        };
        SeriatimContext { device: device as u32, id: context.id() }
    }
}
