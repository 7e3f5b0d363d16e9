//! The asymmetric pair of fences under loom: a light fence orders its thread against heavy fences,
//! and against nothing else. This is `platform/asymmetric_fence.rs` in models.
//!
//! Two ordinary fences would promise more than the pair does: of two threads which both pass a
//! *light* fence, one would see the other. So each thread has a word of its own, which it steps
//! when it passes a light fence; a heavy fence steps the words of all threads. Each step sees the
//! steps before it on the same word. So if the light fence came first, the heavy one finds what was
//! written before it, and the other way round. Two light fences have no word in common.

use loom::sync::atomic::{fence, AtomicUsize, Ordering::*};
use std::cell::RefCell;
use std::sync::Arc;

/// The most threads of an execution: loom's own limit.
const THREADS: usize = loom::MAX_THREADS;

/// One execution's words.
struct Words {
    /// The word that heavy fences step, and that each thread steps once before its first light
    /// fence.
    all: Arc<AtomicUsize>,
    /// The words of the threads that have passed a light fence, then those for threads that may
    /// still do so.
    own: [Arc<AtomicUsize>; THREADS],
    /// How many words of `own` are taken by a thread.
    taken: usize,
}

std::thread_local! {
    /// The words of the execution under way: loom runs its threads on one thread of the system, one
    /// at a time. An access to this is no step of the model, and the cell is never borrowed during
    /// one.
    static WORDS: RefCell<Option<Words>> = const { RefCell::new(None) };
}

loom::thread_local! {
    static OWN: Arc<AtomicUsize> = enter();
}

/// Begins an execution. `asymmetric` says whether a light fence is less than an ordinary one in it,
/// which takes longer to explore. Called by `loom-tests/src/runner.rs`.
pub fn begin(asymmetric: bool) {
    let words = || Words { all: Arc::default(), own: std::array::from_fn(|_| Arc::default()), taken: 0 };
    WORDS.set(asymmetric.then(words));
}

fn with_words<T>(look: impl FnOnce(&mut Words) -> T) -> T {
    WORDS.with_borrow_mut(|words| look(words.as_mut().expect("it has begun")))
}

/// Gives a word to a thread that has none.
fn enter() -> Arc<AtomicUsize> {
    let (all, own) = with_words(|words| {
        words.taken += 1;
        (Arc::clone(&words.all), Arc::clone(&words.own[words.taken - 1]))
    });
    // Acquire: pairs with the steps of `all` by heavy fences. A heavy fence that comes after this
    // step finds the new word; of a heavy fence that came before, this step sees all that was
    // written before it.
    all.fetch_add(1, Acquire);
    own
}

pub fn is_on() -> bool {
    WORDS.with_borrow(Option::is_some)
}

pub fn light() {
    // A thread that ends may have lost its word. It passes an ordinary fence, which is more.
    if OWN.try_with(|own| own.fetch_add(1, AcqRel)).is_err() {
        fence(SeqCst);
    }
}

pub fn prepare() {}

pub fn fence_everywhere() {
    if !is_on() {
        return;
    }
    with_words(|words| Arc::clone(&words.all)).fetch_add(1, AcqRel);
    for word in with_words(|words| words.own[..words.taken].to_vec()) {
        word.fetch_add(1, AcqRel);
    }
}
