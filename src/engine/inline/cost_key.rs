//! Which closures are taken to take equally long: those with one key.
//!
//! `inline/policy.rs` has an opinion for each key. `engine/core.rs` makes the keys of stored
//! closures, on threads that push or call them, and `api/operator.rs` those of operators.
//! `api/keyed_builder.rs`, `api/pipeline.rs` and `api/prepare.rs` make those that a program gives.
//! No state here.

use crate::engine::inline::attention::hash;
use crate::operation::closure::{type_key, Cost, Vtable};
use crate::sync::MODELLED;

/// The number of keys. Those with the same hash are one.
pub const KEYS: usize = if MODELLED { 1 } else { 512 };

/// Names the closures that are taken to cost alike: those of one type, or those to which the
/// program gave one key. Keys with the same hash are the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CostKey(pub(super) usize);

impl CostKey {
    /// A key that the program gives.
    #[inline]
    pub fn given(key: u64) -> CostKey {
        CostKey(hash(key) as usize % KEYS)
    }

    /// The key of a stored closure; `None` if nothing can be learned of it.
    ///
    /// # Safety
    /// `storage` holds a closure that `body` belongs to.
    #[inline]
    pub unsafe fn of(body: &'static Vtable, storage: *const u8) -> Option<CostKey> {
        match body.cost {
            // SAFETY: `storage` holds the closure, by the contract.
            Cost::Learned(key) => Some(CostKey::given(unsafe { key(storage) })),
            Cost::Unknown => None,
        }
    }

    /// The key of all closures of one type.
    #[inline]
    pub fn of_type<F: 'static>() -> CostKey {
        CostKey::given(type_key::<F>())
    }
}
