//! What an operation tells the thread that has pushed it and waits for that.
//!
//! Used by `src/api/adopted_stream.rs`. The answer comes when the closure says it, which may be
//! before a device has done the operation's work. The asking thread has the [`Question`]. The
//! [`Answer`] is on the thread that calls the closure, or drops it uncalled.

use crate::engine::core::Core;
use crate::engine::nesting::refuse_wait_inside;
use crate::engine::wait::event::OneShot;
use crate::engine::wait::for_var::listen;
use crate::error::Error;
use std::sync::{Arc, OnceLock};

/// The thread's end.
pub struct Question<T>(Arc<Between<T>>);

/// The operation's end. Dropped without an answer, it says that there is none.
pub struct Answer<T>(Arc<Between<T>>);

struct Between<T> {
    answer: OnceLock<T>,
    event: Arc<OneShot>,
}

/// Both ends, for a thread that is inside no operation of the engine.
pub fn ask<T>(core: &Arc<Core>) -> Result<(Question<T>, Answer<T>), Error> {
    refuse_wait_inside(core)?;
    core.dispatch.before_waiting(core);
    let shared = Arc::new(Between { answer: OnceLock::new(), event: OneShot::take() });
    Ok((Question(Arc::clone(&shared)), Answer(shared)))
}

impl<T> Answer<T> {
    pub fn give(self, answer: T) {
        let _ = self.0.answer.set(answer);
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        self.0.event.set(None);
    }
}

impl<T: Clone> Question<T> {
    /// Waits for the answer. `None`: the closure was not called.
    pub fn wait(self, core: &Arc<Core>) -> Option<T> {
        let is_set = listen(core, &self.0.event, None);
        let answer = self.0.answer.get().cloned();
        // In the child of a fork it may still be set.
        if is_set {
            OneShot::put_back(Arc::clone(&self.0.event));
        }
        answer
    }
}
