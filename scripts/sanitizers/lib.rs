//! Empty: this package is only tests, which lie in `tests/` of the repository.
