//! `StartLimits`: until when an operation may start. Programs give them to a push, whose thread
//! makes them a part of the operation's closure (`src/engine/limited.rs`) or of a replay
//! (`src/engine/replay/limits.rs`). The thread that is about to call the closure asks. So an
//! operation without limits has nothing of them, neither a flag nor a test.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use crate::operation::cancel_token::CancelToken;
use std::time::Instant;

/// Until when an operation may start: unless a [`CancelToken`] is cancelled, and not after a
/// deadline. Either may be missing.
///
/// They are looked at once, when the operation's turn has come and before its closure is called. If
/// the operation may not start, it fails with [`Cancelled`](ErrorKind::Cancelled) or, if only the
/// deadline has passed, with [`DeadlineExceeded`](ErrorKind::DeadlineExceeded). [`CancelToken`]
/// says what that means for other operations. An operation that inherits a failure has that, and
/// not one of its own. One of [`Property::NoSkip`](crate::Property::NoSkip), which runs in spite of
/// other failures, is skipped by its own limits.
///
/// | to push with limits | call |
/// |---|---|
/// | an operation, a result, a future, typed access | [`token`](crate::OperationBuilder::token), [`deadline`](crate::OperationBuilder::deadline) or [`limits`](crate::OperationBuilder::limits), then as usual |
/// | an [`Operator`](crate::Operator) | [`Engine::push_limited`](crate::Engine::push_limited) |
/// | a replay of a [`Graph`](crate::Graph) | [`Graph::replay_limited`](crate::Graph::replay_limited) |
/// | a replay of a [`Pipeline`](crate::Pipeline) | [`Pipeline::replay_limited`](crate::Pipeline::replay_limited) |
///
/// ```
/// use seriatim::{CancelToken, StartLimits};
/// use std::time::{Duration, Instant};
/// let token = CancelToken::new();
/// let both = StartLimits::new().token(&token).deadline(Instant::now() + Duration::from_secs(1));
/// let one: StartLimits = (&token).into();
/// # let _ = (both, one);
/// ```
#[must_use = "limits do nothing unless an operation is pushed with them"]
#[derive(Clone, Debug, Default)]
pub struct StartLimits {
    token: Option<CancelToken>,
    deadline: Option<Instant>,
}

impl StartLimits {
    /// No limits.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let step = engine.op("step").operator(|_| ())?;
    /// engine.push_limited(&step, seriatim::Context::cpu(0), 0, seriatim::StartLimits::new())?;
    /// engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn new() -> StartLimits {
        StartLimits::default()
    }

    /// Not after this token is cancelled. It replaces an earlier one.
    ///
    /// ```
    /// use seriatim::{CancelToken, StartLimits};
    /// let token = CancelToken::new();
    /// let limits = StartLimits::new().token(&token);
    /// # let _ = limits;
    /// ```
    pub fn token(mut self, token: &CancelToken) -> StartLimits {
        self.token = Some(token.clone());
        self
    }

    /// Not after this time. It replaces an earlier one. The clock is read once, when the
    /// operation's turn has come.
    ///
    /// ```
    /// use seriatim::StartLimits;
    /// use std::time::{Duration, Instant};
    /// let limits = StartLimits::new().deadline(Instant::now() + Duration::from_millis(5));
    /// # let _ = limits;
    /// ```
    pub fn deadline(mut self, deadline: Instant) -> StartLimits {
        self.deadline = Some(deadline);
        self
    }

    /// Why an operation with these limits may not start now, if so.
    #[inline]
    pub(crate) fn refusal(&self) -> Option<Error> {
        self.cancellation().or_else(|| self.lateness())
    }

    /// The error of what is cancelled, if the token is.
    #[inline]
    pub(crate) fn cancellation(&self) -> Option<Error> {
        self.token.as_ref().is_some_and(CancelToken::is_cancelled).then(cancelled)
    }

    /// The error of what has not started in time, if the deadline has passed.
    #[inline]
    fn lateness(&self) -> Option<Error> {
        let deadline = self.deadline?;
        let now = Instant::now();
        (now > deadline).then(|| too_late(now, deadline))
    }
}

/// The error of an operation whose token is cancelled.
#[cold]
fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "its token was cancelled before it was called")
}

#[cold]
fn too_late(now: Instant, deadline: Instant) -> Error {
    let message = format!("its turn came {:?} after its deadline: push it earlier, or give it longer", now - deadline);
    Error::new(ErrorKind::DeadlineExceeded, message)
}

impl From<&CancelToken> for StartLimits {
    fn from(token: &CancelToken) -> StartLimits {
        StartLimits::new().token(token)
    }
}

impl From<Instant> for StartLimits {
    fn from(deadline: Instant) -> StartLimits {
        StartLimits::new().deadline(deadline)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::time::Duration;

    fn kind(limits: &StartLimits) -> Option<ErrorKind> {
        limits.refusal().map(|error| error.kind())
    }

    #[test]
    fn what_is_in_time_and_not_cancelled_may_start() {
        let token = CancelToken::new();
        let [late, early] = [Instant::now(), Instant::now() + Duration::from_secs(3600)];
        while Instant::now() <= late {}
        assert_eq!(kind(&StartLimits::new()), None);
        assert_eq!(kind(&early.into()), None);
        assert_eq!(kind(&late.into()), Some(ErrorKind::DeadlineExceeded));
        assert_eq!(kind(&StartLimits::from(late).deadline(early)), None, "it was replaced");
        let both = |deadline| StartLimits::from(&token).deadline(deadline);
        assert_eq!(kind(&both(early)), None);
        assert_eq!(kind(&both(late)), Some(ErrorKind::DeadlineExceeded));
        assert!(both(late).cancellation().is_none());
        token.cancel();
        assert!(both(early).cancellation().is_some());
        assert_eq!(kind(&both(early)), Some(ErrorKind::Cancelled));
        assert_eq!(kind(&both(late)), Some(ErrorKind::Cancelled));
        assert_eq!(kind(&both(late).token(&CancelToken::new())), Some(ErrorKind::DeadlineExceeded));
    }

    #[test]
    fn the_error_says_by_how_much_it_was_late() {
        let deadline = Instant::now();
        std::thread::sleep(Duration::from_millis(2));
        let error = StartLimits::from(deadline).refusal().expect("it has passed");
        assert!(error.to_string().contains("ms after its deadline"), "{error}");
    }
}
