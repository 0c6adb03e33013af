//! Exports: from the request to the files of users and the callback.
