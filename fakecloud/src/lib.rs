//! fakecloud
