//! The pair of fences under loom: a light one orders its thread against heavy ones, and against
//! nothing else.
//!
//! Two ordinary fences would promise more than the pair does: that of two threads which both pass a
//! *light* one, one sees the other. So each thread has a word of its own. It steps that when it
//! passes a light fence; a heavy one steps the words of all threads. Each step sees the steps
//! before it on the same word: if the light one came first, the heavy one finds what was written
//! before it, and the other way round. Two light ones have no word in common.

use loom::sync::atomic::{fence, AtomicUsize, Ordering::*};
use std::cell::RefCell;
use std::sync::Arc;

/// The most threads of an execution: loom's own limit.
const THREADS: usize = loom::MAX_THREADS;

/// One execution's words.
struct Words {
    /// Stepped by heavy fences, and once by each thread before its first light one.
    all: Arc<AtomicUsize>,
    /// Those of threads that have passed a light fence, and then those of threads that may.
    own: [Arc<AtomicUsize>; THREADS],
    taken: usize,
}

std::thread_local! {
    /// Those of the execution under way: loom runs its threads on one of the system's, one at a
    /// time. No step of the model, and never borrowed during one.
    static WORDS: RefCell<Option<Words>> = const { RefCell::new(None) };
}

loom::thread_local! {
    static OWN: Arc<AtomicUsize> = enter();
}

/// An execution begins; `asymmetric` says whether a light fence is less than an ordinary one in it,
/// which takes longer to explore.
pub fn begin(asymmetric: bool) {
    let words = || Words { all: Arc::default(), own: std::array::from_fn(|_| Arc::default()), taken: 0 };
    WORDS.set(asymmetric.then(words));
}

fn with_words<T>(look: impl FnOnce(&mut Words) -> T) -> T {
    WORDS.with_borrow_mut(|words| look(words.as_mut().expect("it has begun")))
}

/// A word for a thread that has none.
fn enter() -> Arc<AtomicUsize> {
    let (all, own) = with_words(|words| {
        words.taken += 1;
        (Arc::clone(&words.all), Arc::clone(&words.own[words.taken - 1]))
    });
    // A heavy fence that comes after this step finds the word; of one that came before, this step
    // sees all.
    all.fetch_add(1, Acquire);
    own
}

pub fn is_on() -> bool {
    WORDS.with_borrow(Option::is_some)
}

pub fn light() {
    // A thread that ends may have lost its word: an ordinary fence is more.
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
