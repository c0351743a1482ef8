//! Replaces the C library's `getrandom` by a seeded stream on threads that run a simulation.
//!
//! This is the only file of the project with unsafe code. The standard library reads the keys of its hash maps from
//! `getrandom` once per thread. The replacement makes the iteration order of every `HashMap`, including those of
//! dependencies, a function of the seed. On all other threads it performs the system call. It exists on Linux only;
//! [`exact_replay`] returns false on other platforms.
#![allow(unsafe_code)]

use std::cell::RefCell;

use clock::Stream;

thread_local! {
    static STREAM: RefCell<Option<Stream>> = const { RefCell::new(None) };
}

/// Whether the seed controls the operating system's randomness on this platform, so that a run replays exactly.
pub fn exact_replay() -> bool {
    cfg!(target_os = "linux")
}

/// Serves this thread's `getrandom` from `stream` until the thread ends.
pub(crate) fn seed_this_thread(stream: Stream) {
    #[cfg(target_os = "linux")]
    {
        // Without this reference the linker drops the archive member with the replacement.
        std::hint::black_box(linux::getrandom as *const ());
    }
    STREAM.with(|cell| *cell.borrow_mut() = Some(stream));
}

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::{c_uint, c_void};

    use super::STREAM;

    /// Replaces the C library's function of the same name.
    ///
    /// # Safety
    /// As for the C library's function: `buffer` is valid for writes of `length` bytes.
    #[unsafe(no_mangle)]
    pub(super) unsafe extern "C" fn getrandom(
        buffer: *mut c_void,
        length: libc::size_t,
        flags: c_uint,
    ) -> libc::ssize_t {
        // SAFETY: this function and `fill` have the same precondition.
        if unsafe { fill(buffer.cast(), length) } {
            return libc::ssize_t::try_from(length).unwrap_or(libc::ssize_t::MAX);
        }
        // SAFETY: the system call receives the arguments unchanged.
        let written = unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) };
        written as libc::ssize_t
    }

    /// Fills the buffer from this thread's stream; returns false if the thread has no stream.
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
