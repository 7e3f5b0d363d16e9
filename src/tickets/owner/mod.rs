//! Ownership of variables: a lock-free protocol, like biased locking with asymmetric fences. A
//! variable belongs to the pusher that uses it alone. This owner counts its uses by plain loads and
//! stores. Another pusher that wants the variable takes it, and waits for nobody, wherever the
//! owner may have stopped.
//!
//! Used by `engine/push/`, by `engine/inline/fast_path.rs` ([`AtOnce`]) and, for threads that wait
//! for a variable, by `engine/wait/`. `engine/ticket_host.rs` implements [`Peers`]. `pool/` has the
//! records, `thread/pusher.rs` finds the thread's own, and `variable/slot.rs` has the word of the
//! owner. The owner's side is in `pusher.rs` and `at_once.rs`, the newcomer's in `handover.rs` and
//! `sharing.rs`. The state is in `pusher.rs`, `place.rs`, `share.rs` and `number.rs`; this file has
//! the argument, and what the protocol asks of the engine.
//!
//! # The owner
//! Each pusher (one thread at a time) has a [`Record`]. The record has the number of the pusher's
//! last push, and for each variable a place with two numbered states. Push n
//!
//! 1. writes what it counts into the *older* state of each of its variables, with the number n and
//!    the operation's reference;
//! 2. stores `commit` = n, passes a light fence, and loads `limit`. If n is below the limit, the
//!    push has happened.
//! 3. Otherwise another pusher has closed the era. The push compare-exchanges `decided` from
//!    undecided to n, and has happened if `decided` then says n. If it says another number, the
//!    states of the push are void: the push takes their numbers away.
//!
//! # Eras
//! `limit`, `decided` and the numbers are of one *era*, which is the upper part of each number. An
//! era that is closed is over for good. The pusher begins another era when it next acquires a
//! variable ([`Pusher::acquire`]): by then the last push is finished or void. So `decided` of a
//! later era says that all states of the era before are final.
//!
//! A variable names its owner and the owner's era ([`Owner`]), and each state in the owner's place
//! says of which era it is. So the owner sees by its own place whether a variable is still its own:
//! a state of an era that is over is not valid.
//!
//! # The newcomer
//! A *newcomer* is a pusher that wants a variable which another pusher owns. It finds that pusher A
//! owns the variable in era e.
//!
//! 1. If `decided` of e is undecided, the newcomer closes `limit`, passes a heavy fence, loads
//!    `commit`, and compare-exchanges `decided` from undecided to the value of `commit`. What
//!    `decided` then says is s, the last push of the era. If `decided` is of a later era, s is the
//!    end of e.
//! 2. The newcomer finishes push s, which A may not have done: see "Finishing".
//! 3. What A had of the variable is the state with the largest number up to s. The newcomer copies
//!    this state into its own place, with the number of its own last push.
//! 4. The newcomer compare-exchanges the owner from (A, e) to itself and its own era. If the
//!    exchange fails, the copy is void, and the newcomer looks again.
//!
//! A itself goes from (A, e) to its present era in the same way, when it next uses the variable.
//! The newcomer has noted that it wants the variable (a hint): then A's return counts as a change
//! of hands. Without the hint, A could be back before the newcomer has looked, each time.
//!
//! If the newcomer only reads, it does not become the owner: the variable becomes
//! [shared](sharing).
//!
//! After [some changes of hands](handover) with few uses in between, the variable becomes common.
//! The owner word goes from (A, e) to (ending, A, e), after which A's place for the variable is not
//! written any more. So all pushers that find (ending, A, e) compute the same [`Start`], which
//! [`Peers::begin_common`] stores, and the owner word goes on to common. A single exchange to
//! common would not do: a pusher that comes late would store another start.
//!
//! # Why it holds
//! - *The owner and the newcomers agree.* A push stores `commit` and loads `limit`; a newcomer
//!   stores `limit` and loads `commit`. One of the two loads sees the other thread's store. If the
//!   push's load does not, then every newcomer that decides finds n. Otherwise one exchange of
//!   `decided` decides.
//! - *The state of push s stays while it is needed.* In era e nothing is pushed after s but one
//!   push that fails: it writes the older states. A push of a later era writes a variable only
//!   after A has exchanged (A, e). Then the newcomer's exchange fails, and its copy is void. Void,
//!   too, is a copy that A overwrites while the newcomer reads it. An owner (A, e) never comes
//!   back: eras grow.
//! - *A void state misleads nobody.* Its number is larger than s. A thread that does not know s
//!   knows that the era is over. Then the number is gone: it is taken away before the next era is
//!   decided upon.
//! - *A copy is valid in any later decision.* It has the number of the newcomer's last push. This
//!   number is not above what is decided for the newcomer's era, and above all numbers of its older
//!   eras.
//! - *Nobody hinders another without end.* A newcomer's try fails if the variable has changed
//!   hands, or if its owner has come back to it. An owner's return to a variable that another
//!   pusher wants always counts as a change, whatever the owner has pushed since. A newcomer's
//!   change is forgotten only if the holder before had many uses. So a newcomer tries a few times,
//!   or once for each long turn of others.
//!
//! # Operations that run inside their push
//! The push of such an operation ([`AtOnce`]) is committed before the operation runs, so that
//! pushes from inside the operation and newcomers come behind it. When the operation has run, the
//! pusher withdraws the push: it stores `commit` = n - 1, passes a light fence, and loads `limit`.
//! If the era is open, push n has never been: the pusher takes the states' numbers away, and gives
//! n to the next push. Nothing is counted on the run side. If the era is closed, `decided` says
//! whether push n stands; if it does, the operation ends as any other.
//!
//! - *Nobody has a ticket behind a withdrawn push.* A thread that closes the era after the light
//!   fence finds n - 1. If a thread has closed the era before, the pusher sees that, and one
//!   exchange decides, like for a commit.
//! - *The state before push n is there.* A place has two states. The state of n stays the newer
//!   one, and the older one is as of n - 1, until another push writes it. If another push was begun
//!   since, whatever has come of it, push n stands. Push n also stands if a place was begun since,
//!   because the number of this place is n.
//! - *The effects of the operation are seen.* A thread that decides for n - 1 has acquired the
//!   store of n - 1. A thread that waits, and has heard of the operation, acquires the store that
//!   took the state's number away.
//!
//! # Finishing
//! To *finish* a committed push, its pusher links the operation to its common variables, if it has
//! any, and puts it into a log. The pusher may stop before it has done so. So the newcomer does the
//! same ([`Peers::finish`]) before anything can depend on the operation; that all of it is done
//! twice does no harm. The pusher has finished all its other operations before it began the last
//! push.
//!
//! No circle of operations arises from this. Say that X comes right before Y on some variable. On
//! an owned variable, X is finished before Y is committed. On a common variable, X is enlisted
//! everywhere (finished, but for the log) before Y is enlisted there: a half-enlisted operation is
//! helped first. Y is finished after it is committed and enlisted. So X is always finished before Y
//! is, and an order in time has no circles.
//!
//! # Owned and common variables in one push
//! The accesses of common variables come first, in ascending order, and have
//! [links](crate::tickets::links::Links). The accesses of owned variables are claimed behind them.
//! Nothing is linked before the commit, so a push that fails has left nothing.
//!
//! 1. The push finds that some variables are open as common ones. It pins, and stays pinned to its
//!    end. Under the pin it looks whether its variables live, and *then* which are common. A look
//!    without the pin may find a variable that is new in its slot.
//! 2. The push renews the node and the links, and writes the common accesses. It claims the others.
//!    If a claim is refused, the push pins, acquires that variable, and starts over.
//! 3. The push stores the operation's word, and commits if it has claimed anything. If the commit
//!    fails, the push starts over: what was owned may be common now, so more accesses are linked.
//! 4. The push enlists the operation, or logs it if no variable is common.
//!
//! The commit notes beside the operation whether it has links, and a newcomer goes by this note.
//! The newcomer must not look into the block: an operation without links may have ended, and its
//! block may be another operation's. An operation that is given up after a commit that failed
//! leaves [`FREE`] in its word.
//!
//! [`FREE`]: crate::tickets::word::FREE
//!
//! # Deletion
//! The handle dies first. Then the handle's thread pushes the deletion, for which it may have to
//! acquire the variable, and forgets its place. If the variable is common by then, the deletion is
//! linked.
//!
//! - *No ticket is taken behind the deletion.* A newcomer asks whether the variable lives *after*
//!   it has seen what the owner has. If this is as of the deletion, the newcomer has acquired the
//!   commit, and with it that the handle is dead. Otherwise the owner's era ends before the
//!   deletion, whose commit fails and which takes the variable back. To ask before is not enough:
//!   an owner that deletes need not acquire, so no exchange shows that the variable has gone.
//! - *A pusher that owned the variable before* finds its era closed when it next commits, and the
//!   variable gone.
//! - *The pusher that has deleted the variable* has forgotten its place, so claims are refused, and
//!   the variable is gone.
//! - *The slot* is opened anew when the deletion has ended and all threads are gone that were
//!   pinned then: [`Owner::renew`], [`Common::renew`](crate::tickets::common::Common::renew), then
//!   the generation. The slot's counts go on from the uses that have ended.
//!
//! # Pins
//! A pin keeps a variable's slot from being used again while [`Pusher::acquire`] looks at it. The
//! owner needs no pin: what it finds in its own place it may use, or its commit fails.

mod at_once;
mod handover;
mod number;
mod place;
mod pusher;
mod share;
mod sharing;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

pub use at_once::{AtOnce, Committed, Counted};
pub use number::Owner;
pub use pusher::{Push, Pusher, Record};

use crate::tickets::run::{Start, Variables};
use crate::tickets::word::Word;

/// The result of [`Pusher::acquire`].
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acquired {
    /// The pusher owns the variable, or shares it.
    Owned,
    /// The variable is common: pushes enlist with it.
    Common,
    /// The variable was deleted.
    Gone,
    /// The record has used up its eras: the thread needs another record.
    UsedUp,
}

/// Access to the variables and to the other pushers. Implemented by `engine/ticket_host.rs`; called
/// by a pusher that acquires a variable, under its pin.
pub trait Peers: Variables {
    /// All that is kept of a variable. Its owner is given this pointer again by
    /// [`AtOnce::claim`](at_once::AtOnce::claim).
    fn whole(&self, variable: u32) -> *const () {
        std::ptr::from_ref(self.progress(variable)).cast()
    }

    /// The word that names the owner of a variable.
    fn owner(&self, variable: u32) -> &Owner;

    /// About how many writes of a variable have ended. Used for an estimate only.
    fn version(&self, _: u32) -> u64 {
        0
    }

    /// Whether the variable of this generation is alive, or is being deleted by the caller.
    fn lives(&self, variable: u32, generation: u32) -> bool;

    /// The record of a pusher, which stays readable after its thread's end.
    fn record(&self, pusher: u32) -> &Record {
        // A variable names only pushers whose records exist.
        self.record_if_any(pusher).expect("a pusher's record is made before it owns anything")
    }

    /// Like [`Peers::record`], but `None` if the record does not exist yet.
    fn record_if_any(&self, pusher: u32) -> Option<&Record>;

    /// How many pushers there are. A pusher that is just being added may be missing.
    fn pushers(&self) -> u32;

    /// Finishes an operation that was committed, unless that is done. `linked`: the operation has
    /// common variables, and is [helped](crate::tickets::linking::help). Otherwise it is logged:
    /// its block may be used again already, and is not looked at.
    fn finish(&self, operation: Word, linked: bool);

    /// Notes the tickets from which a common variable goes on. Several threads call this, with the
    /// same start, also after the variable was first used as a common one.
    fn begin_common(&self, variable: u32, start: Start);
}
