//! The console: who may sign in, what a session may do, and that nobody else can do it.

mod exports;
mod overview;
mod proxy;
mod rights;
mod sign_in;
