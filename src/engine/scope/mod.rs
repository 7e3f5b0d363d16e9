//! Scopes: operations that borrow from the stack of the thread that pushes them, which joins them
//! before it returns.
//!
//! `api/scope.rs` opens a scope ([`open`]), pushes its operations, called *children*, and joins.
//! [`child`] has their closures, [`state`] what the threads of one scope share, [`ready`] the list
//! of its ready children, [`offer`] puts one there, and [`help`] runs them; [`innermost`] knows
//! which one a thread is inside of.
//!
//! **Outside of operations** a child is an operation as any other, on whatever variables, in
//! whatever log. The thread waits as for the result of an operation, and may run what is ready
//! (`wait/for_scope.rs`).
//!
//! **Inside an operation** that would wait for ever. The operation that waits holds its variables.
//! A child that uses one of them comes after it, and a child on any other variable may stand behind
//! a third operation that comes after it. And an operation that the waiting thread ran could open a
//! scope whose child is behind the first. So three rules hold inside:
//!
//! 1. A child uses no variables but those that were made in its scope. No other operation can name
//!    these, so a child waits only for earlier children of its scope.
//! 2. A waiting thread runs only children of its scope, and their descendants.
//! 3. A child that is ready lies in the list of its scope until a thread takes it and runs it at
//!    once.
//!
//! So there is always progress. Look at the deepest scopes in which threads wait. Each child there
//! is in the list, or runs and is waited for by its scope only, or comes after children that are.
//! The thread that waits takes the first kind; the second kind ends by itself; the third becomes
//! the first. By induction every scope ends, with no thread but those that wait.
//!
//! **Who runs a child.** The thread that joins takes from the list. Workers take too. A scope whose
//! list has children is shown in [`registry`], and an *invitation* is queued with the engine: an
//! ordinary operation without variables, which runs children of the scopes that it finds there. One
//! lies in the queue at least, so a worker that becomes idle later comes, too, and as many as there
//! are workers at most, so none pile up. A thread that has nothing left of its own scope looks in
//! the registry for scopes further in, those that were opened inside its own children, and then is
//! *asleep*. A scope that gets a ready child asks such a thread further out, before it asks a
//! worker. So a thread that waits helps its descendants, and no others (rule 2).
//!
//! **Sleeping.** A thread that finds its list empty says that it is asleep, looks at the list once
//! more, looks for some microseconds whether it is called, and parks. It is called by the end of
//! the last child, and by whatever puts a child into the list. Both are exchanges of the word in
//! which the thread says it (`state.rs`), so they have one order, and no call is lost.
//!
//! **Lifetimes.** As in `std::thread::scope`: the scope is lent to the program's closure for
//! `'scope`, in which the scope type is invariant, and closures of children live for `'scope`. The
//! join is in the function that lends it. It is not in a destructor, which a program could forget.
//! It comes also when the closure has panicked. A child counts as ended when its closure, with all
//! that it had captured, is gone. The last exchange of a child's end is on memory that the child
//! holds by an `Arc`, so the scope may be gone by then.
//!
//! **Depth.** A thread may have [`open::MOST_OPEN`] scopes open inside each other; one more is an
//! error. So its stack holds so many closures of the program, and the engine's frames between them.
//!
//! In steady state nothing is allocated for children without variables: a child lies in a block of
//! its pusher's ring, and a thread keeps the states of its scopes (`state.rs`). Those on parts are
//! enlisted, as nested pushes of several threads are. No step waits for another thread but the join
//! itself.

pub mod child;
mod help;
mod innermost;
mod offer;
pub mod open;
pub mod ready;
pub mod registry;
pub mod state;
