//! The C library's `getrandom`, served from the seed on threads that run a simulation.
//!
//! The only unsafe file of the project. The standard library draws the keys of its hash maps from
//! `getrandom` once a thread; replacing that function is what makes the iteration order of every
//! `HashMap`, also of those inside dependencies, a function of the seed. On all other threads the
//! replacement passes through to the system call. Linux only: elsewhere it is compiled out and
//! [`exact_replay`] says so.
#![allow(unsafe_code)]

use std::cell::RefCell;

use clock::Stream;

thread_local! {
    static STREAM: RefCell<Option<Stream>> = const { RefCell::new(None) };
}

/// Whether the operating system's randomness is under the seed's control on this platform, so that
/// a run replays to the bit.
pub fn exact_replay() -> bool {
    cfg!(target_os = "linux")
}

/// Serves this thread's `getrandom` from `stream` from here on, for the rest of the thread's life.
pub(crate) fn seed_this_thread(stream: Stream) {
    #[cfg(target_os = "linux")]
    {
        // The linker drops an archive member that nothing names, and with it the replacement.
        std::hint::black_box(linux::getrandom as *const ());
    }
    STREAM.with(|cell| *cell.borrow_mut() = Some(stream));
}

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::{c_uint, c_void};

    use super::STREAM;

    /// Replaces the C library's function of that name.
    ///
    /// # Safety
    /// As the C library's: `buffer` is valid for writes of `length` bytes.
    #[unsafe(no_mangle)]
    pub(super) unsafe extern "C" fn getrandom(
        buffer: *mut c_void,
        length: libc::size_t,
        flags: c_uint,
    ) -> libc::ssize_t {
        // SAFETY: the caller's promise is this function's own.
        if unsafe { fill(buffer.cast(), length) } {
            return libc::ssize_t::try_from(length).unwrap_or(libc::ssize_t::MAX);
        }
        // SAFETY: the arguments are those of the system call, handed through unchanged.
        let written = unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) };
        written as libc::ssize_t
    }

    /// Fills the buffer from this thread's stream; false when the thread has none.
    ///
    /// # Safety
    /// `buffer` is valid for writes of `length` bytes.
    unsafe fn fill(buffer: *mut u8, length: usize) -> bool {
        STREAM
            .try_with(|cell| {
                let Ok(mut stream) = cell.try_borrow_mut() else {
                    return false;
                };
                let Some(stream) = stream.as_mut() else { return false };
                for offset in (0..length).step_by(8) {
                    let bytes = stream.bits().to_le_bytes();
                    let count = bytes.len().min(length - offset);
                    // SAFETY: `offset + count <= length`, and the buffer is valid for `length` bytes.
                    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.add(offset), count) };
                }
                true
            })
            .unwrap_or(false)
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::collections::HashMap;

    use clock::Seed;

    use super::*;

    fn on_a_seeded_thread<T: Send>(seed: u64, body: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    seed_this_thread(Seed::new(seed).stream("entropy"));
                    body()
                })
                .join()
                .unwrap()
        })
    }

    fn hash_order() -> Vec<u32> {
        let map: HashMap<u32, ()> = (0..64).map(|key| (key, ())).collect();
        map.into_keys().collect()
    }

    #[test]
    fn hash_order_is_a_function_of_the_seed() {
        let first = on_a_seeded_thread(7, hash_order);
        assert_eq!(first, on_a_seeded_thread(7, hash_order));
        assert_ne!(first, on_a_seeded_thread(8, hash_order));
    }

    #[test]
    fn the_getrandom_crate_is_served_from_the_seed_too() {
        let draw = || {
            let mut bytes = [0; 37];
            getrandom::fill(&mut bytes).unwrap();
            bytes
        };
        assert_eq!(on_a_seeded_thread(7, draw), on_a_seeded_thread(7, draw));
        assert_ne!(on_a_seeded_thread(7, draw), on_a_seeded_thread(8, draw));
    }

    #[test]
    fn other_threads_keep_the_operating_systems_randomness() {
        let draw = || {
            let mut bytes = [0; 16];
            getrandom::fill(&mut bytes).unwrap();
            bytes
        };
        on_a_seeded_thread(7, || ());
        assert_ne!(draw(), draw());
        assert_ne!(draw(), on_a_seeded_thread(7, draw));
    }
}
