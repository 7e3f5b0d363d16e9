//! Whole builds of small manifests: what runs, in which order, what failures stop, and what is
//! printed. Where `ninja`'s answer is known it is the expected one.

#![cfg(unix)]

mod commands;
mod order;
mod place;
