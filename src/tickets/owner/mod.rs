//! Owned variables. A variable belongs to the pusher that uses it alone, which counts its uses by
//! plain loads and stores. When another pusher wants the variable, it takes it, and waits for
//! nobody, wherever the owner may have stopped.
//!
//! # The owner
//! Each pusher (one thread at a time) has a [`Record`]: a number for its last push, and for each
//! variable a place with two numbered states. Push n
//!
//! 1. writes what it counts into the *older* state of each of its variables, numbered n, and the
//!    operation's reference beside;
//! 2. stores `commit` = n, passes a light fence, and loads `limit`. If n is below that, the push
//!    has happened.
//! 3. Otherwise somebody has closed the pusher. The push compare-exchanges `decided` from undecided
//!    to n, and has happened if that says n then. If not, its states are void: the push takes their
//!    numbers away.
//!
//! # Eras
//! `limit`, `decided` and the numbers are of one *era*, which is the upper part of each number. An
//! era that is closed is over for good. The pusher begins another when it next acquires a variable
//! ([`Pusher::acquire`]): by then the last push is finished or void. So `decided` of a later era
//! says that all states of the era before are final.
//!
//! A variable names its owner and the owner's era ([`Owner`]), and a state of the owner's says
//! which era it is of. So the owner sees by its own place whether a variable is still its own: a
//! state of an era that is over does not count.
//!
//! # The newcomer
//! It finds that pusher A owns the variable in era e.
//!
//! 1. If `decided` of e is undecided, it closes `limit`, passes a heavy fence, loads `commit`, and
//!    compare-exchanges `decided` from undecided to that. What `decided` then says is s, the last
//!    push of the era. If it is of a later era, s is the end of e.
//! 2. It finishes push s, which A may not have done: see below.
//! 3. What A had of the variable is the state with the largest number up to s. The newcomer copies
//!    it into its own place, as of its own last push.
//! 4. It compare-exchanges the owner from (A, e) to itself and its own era. If that fails, the copy
//!    is void, and it looks again.
//!
//! A itself goes from (A, e) to its present era in the same way, when it next uses the variable.
//! The newcomer has noted that it wants the variable (a hint): then A's return counts as a change
//! of hands. Otherwise A could be back before the newcomer has looked, each time.
//!
//! If the newcomer only reads, it does not become the owner: the variable is [shared](sharing)
//! then.
//!
//! After [some changes of hands](handover) with few uses in between the variable becomes common:
//! the owner goes from (A, e) to (ending, A, e), after which A's place for it is not written any
//! more. So all who find that compute the same [`Start`], which [`Peers::begin_common`] stores, and
//! the owner goes on to common. One exchange would not do: a pusher that comes late would store
//! another start.
//!
//! # Why it holds
//! - *The owner and the newcomers agree.* Of a push's store to `commit` and its load of `limit`,
//!   and a newcomer's store to `limit` and its load of `commit`, one load sees the other's store.
//!   If the push's does not, then every newcomer that decides finds n. Otherwise one exchange
//!   decides.
//! - *The state of push s stays while it is needed.* In era e nothing is pushed after s but one
//!   push that fails: it writes the older states. A push of a later era writes a variable only
//!   after A has exchanged (A, e); then the newcomer's exchange fails, and its copy is void. So is
//!   a copy that A overwrites while it reads. An owner never comes back: eras grow.
//! - *A void state misleads nobody.* Its number is larger than s. Who does not know s knows that
//!   the era is over, and then the number is gone: it is taken away before the next era is decided
//!   upon.
//! - *A copy counts in any later decision.* It has the number of the newcomer's last push, which is
//!   not above what is decided for the newcomer's era, and above all of its older eras.
//! - *Nobody hinders another without end.* A try fails if the variable has changed hands, or if its
//!   owner has come back to it. An owner's return to a variable that somebody wants always counts
//!   as a change, whatever it has pushed since. A newcomer's change is forgotten only if the holder
//!   before had many uses. So a newcomer tries a few times, or once for each long turn of others.
//!
//! # What runs inside its push
//! Such a push ([`AtOnce`]) is committed before its operation runs, so that pushes from inside and
//! newcomers come behind it. When it has run, the pusher withdraws it: it stores `commit` = n - 1,
//! passes a light fence, and loads `limit`. If the era is open, push n has never been: the pusher
//! takes the states' numbers away, and gives n to the next push. Nothing is counted on the run
//! side. If the era is closed, `decided` says whether n counts; if it does, the operation ends as
//! any other.
//!
//! - *Nobody has a ticket from it.* Who closes the era after the light fence finds n - 1. Who has
//!   closed it before is seen, and then one exchange decides, as for a commit.
//! - *The state before is there.* A place has two states, so n's stays the newer one, and the older
//!   one is as of n - 1, until another push writes it. If one was begun since, whatever has come of
//!   it, n stands. So it does if a place was begun, whose number is n.
//! - *Its effects are seen.* Who decides for n - 1 has acquired the store of that. Who waits, and
//!   has heard of the operation, acquires the state that was taken away.
//!
//! # Finishing
//! A pusher that has committed a push links the operation to its common variables, if it has any,
//! and puts it into a log. It may stop before. So the newcomer does the same ([`Peers::finish`])
//! before anything can depend on the operation; that all of it is done twice does no harm. The
//! pusher has finished all other operations before it began the last.
//!
//! No circle of operations arises from this. Say that X comes right before Y on some variable. On
//! an owned one, X is finished before Y is committed. On a common one, X is enlisted everywhere
//! (finished, but for the log) before Y is enlisted there: a half-enlisted operation is helped
//! first. Y is finished after it is committed and enlisted. So X is always finished before Y is,
//! and an order in time has no circles.
//!
//! # Owned and common variables in one push
//! The accesses of common variables come first, in ascending order, and have
//! [links](crate::tickets::links::Links). The others are claimed behind them. Nothing is linked
//! before the commit, so a push that fails has left nothing.
//!
//! 1. The push finds that some variables are open as common ones. It pins, and stays pinned to its
//!    end. Under the pin it looks whether its variables live, and *then* which are common. A look
//!    without the pin may find a variable that is new in its slot.
//! 2. It renews the node and the links, and writes the common accesses. It claims the others. If a
//!    claim is refused, it pins, acquires that variable, and starts over.
//! 3. It stores the word, and commits if it has claimed anything. If that fails, it starts over:
//!    what was owned may be common now, so more accesses are linked.
//! 4. It enlists the operation, or logs it if no variable is common.
//!
//! The commit notes beside the operation whether it has links, and a newcomer goes by that. It must
//! not look into the block: an operation without links may have ended, and its block be another's.
//! An operation that is given up after a commit that failed leaves [`FREE`] in its word.
//!
//! [`FREE`]: crate::tickets::word::FREE
//!
//! # Deletion
//! The handle dies first. Then its thread pushes the deletion, which it may have to acquire the
//! variable for, and forgets its place. A variable that is common by then has its deletion linked.
//!
//! - *Nothing is taken from the deletion.* A newcomer asks whether the variable lives *after* it
//!   has seen what the owner has. If that is as of the deletion, the newcomer has acquired the
//!   commit, and with it that the handle is dead. Otherwise the owner's era ends before the
//!   deletion, which fails and takes the variable back. To ask before is not enough: an owner that
//!   deletes need not acquire, so no exchange shows that the variable has gone.
//! - *Who owned it before* finds the era closed when it next commits, and the variable gone.
//! - *Who has deleted it* has forgotten it, so claims are refused, and the variable is gone.
//! - *The slot* is opened anew when the deletion has ended and all threads are gone that were
//!   pinned then: [`Owner::renew`], [`Common::renew`](crate::tickets::common::Common::renew), then
//!   the generation. The counts go on from those that have ended.
//!
//! # Not here
//! A pin keeps a variable's slot from being used again while [`Pusher::acquire`] looks at it. The
//! owner needs none: what it finds in its own place it may use, or its commit fails.

mod at_once;
mod handover;
mod number;
mod place;
mod pusher;
mod share;
mod sharing;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

pub use at_once::{AtOnce, Counted};
pub use number::Owner;
pub use pusher::{Push, Pusher, Record};

use crate::tickets::run::{Start, Variables};
use crate::tickets::word::Word;

/// What [`Pusher::acquire`] has come to.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acquired {
    /// The variable is the pusher's.
    Owned,
    /// It is nobody's.
    Common,
    /// It was deleted.
    Gone,
    /// The record has had all its eras: the thread needs another one.
    UsedUp,
}

/// The variables and the other pushers.
pub trait Peers: Variables {
    /// All that is kept of a variable, for who owns it: see
    /// [`AtOnce::claim`](at_once::AtOnce::claim).
    fn whole(&self, variable: u32) -> *const () {
        std::ptr::from_ref(self.progress(variable)).cast()
    }

    /// Whose a variable is.
    fn owner(&self, variable: u32) -> &Owner;

    /// How many writes of a variable have ended, about. For an estimate.
    fn version(&self, _: u32) -> u64 {
        0
    }

    /// Whether the variable of this generation is not deleted, or is being deleted by the caller.
    fn lives(&self, variable: u32, generation: u32) -> bool;

    /// The record of a pusher, which stays readable after its thread's end.
    fn record(&self, pusher: u32) -> &Record {
        // A variable names pushers that are there.
        self.record_if_any(pusher).expect("a pusher's record is made before it owns anything")
    }

    /// As that, if the record is there yet.
    fn record_if_any(&self, pusher: u32) -> Option<&Record>;

    /// How many pushers there are. One that is just being added may be missing.
    fn pushers(&self) -> u32;

    /// Finishes an operation that was committed, unless that is done. `linked`: it has common
    /// variables, and is [helped](crate::tickets::linking::help). Else it is logged: its block may
    /// be used again already, and is not looked at.
    fn finish(&self, operation: Word, linked: bool);

    /// Notes where the count of a common variable begins. Called by several, with the same start,
    /// also after the variable was first used as a common one.
    fn begin_common(&self, variable: u32, start: Start);
}
