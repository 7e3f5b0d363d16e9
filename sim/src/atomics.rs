//! Atomics whose accesses are charged to the core that makes them. `src/sync/mod.rs` hands them to
//! the engine under `--cfg seriatim_simulation`.

use crate::machine::{access, drain, pass, Kind};
use std::sync::atomic::{self, Ordering};

/// A fence. Only a sequentially consistent fence is an instruction on the machine that is modelled.
pub fn fence(order: Ordering) {
    if order == Ordering::SeqCst {
        drain();
        pass(|parameters| parameters.fence);
    }
    atomic::fence(order);
}

fn of_store(order: Ordering) -> Kind {
    // A sequentially consistent store is an exchange, which is what compilers make of it on x86.
    if order == Ordering::SeqCst {
        Kind::Locked
    } else {
        Kind::Store
    }
}

macro_rules! charged {
    ($name:ident($($parameter:ident)?), $inner:ty, $value:ty) => {
        #[repr(transparent)]
        #[derive(Debug)]
        pub struct $name$(<$parameter>)?($inner);

        #[allow(dead_code)]
        impl$(<$parameter>)? $name$(<$parameter>)? {
            #[inline]
            pub const fn new(value: $value) -> Self {
                Self(<$inner>::new(value))
            }

            fn charge(&self, place: &'static std::panic::Location<'static>, kind: Kind) {
                access(std::ptr::from_ref(self).addr(), kind, place);
            }

            #[track_caller]
            #[inline]
            pub fn load(&self, order: Ordering) -> $value {
                self.charge(std::panic::Location::caller(), Kind::Load);
                self.0.load(order)
            }

            #[track_caller]
            #[inline]
            pub fn store(&self, value: $value, order: Ordering) {
                self.charge(std::panic::Location::caller(), of_store(order));
                self.0.store(value, order);
            }

            #[track_caller]
            #[inline]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                self.charge(std::panic::Location::caller(), Kind::Locked);
                self.0.swap(value, order)
            }

            #[track_caller]
            #[inline]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.charge(std::panic::Location::caller(), Kind::Locked);
                self.0.compare_exchange(current, new, success, failure)
            }

            #[track_caller]
            #[inline]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.charge(std::panic::Location::caller(), Kind::Locked);
                self.0.compare_exchange(current, new, success, failure)
            }

            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }
        }
    };
}

macro_rules! arithmetic {
    ($name:ident, $value:ty, $($operation:ident)+) => {
        #[allow(dead_code)]
        impl $name {
            #[track_caller]
            #[inline]
            pub fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                update: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                self.charge(std::panic::Location::caller(), Kind::Locked);
                self.0.fetch_update(success, failure, update)
            }

            $(
                #[track_caller]
                #[inline]
                pub fn $operation(&self, value: $value, order: Ordering) -> $value {
                    self.charge(std::panic::Location::caller(), Kind::Locked);
                    self.0.$operation(value, order)
                }
            )+
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new(0)
            }
        }
    };
}

charged!(AtomicBool(), atomic::AtomicBool, bool);
charged!(AtomicU8(), atomic::AtomicU8, u8);
charged!(AtomicU32(), atomic::AtomicU32, u32);
charged!(AtomicU64(), atomic::AtomicU64, u64);
charged!(AtomicUsize(), atomic::AtomicUsize, usize);
charged!(AtomicPtr(T), atomic::AtomicPtr<T>, *mut T);
arithmetic!(AtomicU8, u8, fetch_add fetch_sub fetch_or fetch_and);
arithmetic!(AtomicU32, u32, fetch_add fetch_sub fetch_or fetch_and fetch_max);
arithmetic!(AtomicU64, u64, fetch_add fetch_sub fetch_or fetch_and fetch_max);
arithmetic!(AtomicUsize, usize, fetch_add fetch_sub fetch_or fetch_and fetch_max);
