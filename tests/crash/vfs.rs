//! A disk that fails: a layer between SQLite and the file system which lets the Nth call on the files of one database
//! fail, once or for good.
//!
//! It is a VFS that hands every call to the system's own. Whoever opens a database in this process goes through it;
//! files that no [`Plan`] names are not touched by it. Every unsafe call is SQLite's own, handed on with its arguments.
#![expect(unsafe_code, reason = "SQLite's file layer is a table of C functions")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once};

use rusqlite::ffi::{
    self, sqlite3_file, sqlite3_int64, sqlite3_io_methods, sqlite3_vfs, sqlite3_vfs_find,
    sqlite3_vfs_register,
};

/// How the disk fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failing {
    /// The Nth call, and no other.
    Once,
    /// The Nth call and every one after it.
    ForGood,
    /// The Nth call, if it writes, and every other write after it: the disk is full.
    Full,
}

/// What is to fail, and what has.
#[derive(Debug)]
pub(crate) struct Plan {
    /// How the paths of the database's files begin.
    path: String,
    failing: Failing,
    left: AtomicI64,
    struck: AtomicU64,
}

static PLANS: Mutex<Vec<Arc<Plan>>> = Mutex::new(Vec::new());

/// Ends a plan when it is dropped.
pub(crate) struct Armed(Arc<Plan>);

impl Armed {
    /// How many calls have failed.
    pub(crate) fn struck(&self) -> u64 {
        self.0.struck.load(Ordering::Relaxed)
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        self.0.left.store(i64::MAX, Ordering::Relaxed);
        let mut plans = PLANS.lock().unwrap();
        plans.retain(|plan| !Arc::ptr_eq(plan, &self.0));
    }
}

/// From now on, and only for connections that are opened from now on: the `nth` call on the database at `path` (1 is
/// the next), its log included, fails.
pub(crate) fn fail(path: &Path, nth: u64, failing: Failing) -> Armed {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(install);
    let plan = Arc::new(Plan {
        path: path.to_str().unwrap().to_owned(),
        failing,
        left: AtomicI64::new(i64::try_from(nth).unwrap()),
        struck: AtomicU64::new(0),
    });
    PLANS.lock().unwrap().push(Arc::clone(&plan));
    Armed(plan)
}

impl Plan {
    /// Counts a call; whether it fails.
    fn strikes(&self, is_write: bool) -> bool {
        if self.failing == Failing::Full && !is_write {
            return false;
        }
        let left = self.left.fetch_sub(1, Ordering::Relaxed);
        let strikes = left == 1 || left < 1 && self.failing != Failing::Once;
        self.struck.fetch_add(u64::from(strikes), Ordering::Relaxed);
        strikes
    }
}

/// An open file; the system's own follows it in memory.
#[repr(C)]
struct File {
    base: sqlite3_file,
    /// From `Arc::into_raw`, or null.
    plan: *const Plan,
}

fn install() {
    unsafe {
        let system = sqlite3_vfs_find(std::ptr::null());
        let mut own = *system;
        own.zName = c"failing".as_ptr();
        own.pAppData = system.cast::<c_void>();
        own.szOsFile = c_int::try_from(size_of::<File>()).unwrap() + (*system).szOsFile;
        own.xOpen = Some(open);
        own.pNext = std::ptr::null_mut();
        assert_eq!(
            sqlite3_vfs_register(Box::leak(Box::new(own)), 1),
            ffi::SQLITE_OK
        );
    }
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    unsafe {
        let system = (*vfs).pAppData.cast::<sqlite3_vfs>();
        (*file).pMethods = std::ptr::null();
        let code = (*system).xOpen.unwrap()(system, name, system_file(file), flags, out);
        if code == ffi::SQLITE_OK {
            let own = file.cast::<File>();
            (*own).plan = plan_for(name).map_or(std::ptr::null(), Arc::into_raw);
            (*own).base.pMethods = &raw const METHODS;
        }
        code
    }
}

unsafe fn plan_for(name: *const c_char) -> Option<Arc<Plan>> {
    if name.is_null() {
        return None;
    }
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let plans = PLANS.lock().unwrap();
    plans
        .iter()
        .find(|plan| name.starts_with(&plan.path))
        .cloned()
}

unsafe fn system_file(file: *mut sqlite3_file) -> *mut sqlite3_file {
    unsafe { file.cast::<File>().add(1).cast() }
}

unsafe fn strikes(file: *mut sqlite3_file, is_write: bool) -> bool {
    unsafe { (*file.cast::<File>()).plan.as_ref() }.is_some_and(|plan| plan.strikes(is_write))
}

unsafe fn is_full(file: *mut sqlite3_file) -> bool {
    let plan = unsafe { (*file.cast::<File>()).plan.as_ref() };
    plan.is_some_and(|plan| plan.failing == Failing::Full)
}

/// The system's own method, called with the system's own file.
macro_rules! hand_on {
    ($file:ident.$method:ident($($argument:expr),*)) => {
        unsafe {
            let system = system_file($file);
            (*(*system).pMethods).$method.unwrap()(system $(, $argument)*)
        }
    };
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    let code = hand_on!(file.xClose());
    unsafe {
        let own = file.cast::<File>();
        if !(*own).plan.is_null() {
            drop(Arc::from_raw((*own).plan));
            (*own).plan = std::ptr::null();
        }
    }
    code
}

unsafe extern "C" fn read(
    file: *mut sqlite3_file,
    to: *mut c_void,
    n: c_int,
    at: sqlite3_int64,
) -> c_int {
    if unsafe { strikes(file, false) } {
        ffi::SQLITE_IOERR_READ
    } else {
        hand_on!(file.xRead(to, n, at))
    }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    from: *const c_void,
    n: c_int,
    at: sqlite3_int64,
) -> c_int {
    match unsafe { (strikes(file, true), is_full(file)) } {
        (true, true) => ffi::SQLITE_FULL,
        (true, false) => ffi::SQLITE_IOERR_WRITE,
        (false, _) => hand_on!(file.xWrite(from, n, at)),
    }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: sqlite3_int64) -> c_int {
    if unsafe { strikes(file, false) } {
        ffi::SQLITE_IOERR_TRUNCATE
    } else {
        hand_on!(file.xTruncate(size))
    }
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    if unsafe { strikes(file, false) } {
        ffi::SQLITE_IOERR_FSYNC
    } else {
        hand_on!(file.xSync(flags))
    }
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, size: *mut sqlite3_int64) -> c_int {
    if unsafe { strikes(file, false) } {
        ffi::SQLITE_IOERR_FSTAT
    } else {
        hand_on!(file.xFileSize(size))
    }
}

unsafe extern "C" fn lock(file: *mut sqlite3_file, level: c_int) -> c_int {
    hand_on!(file.xLock(level))
}

unsafe extern "C" fn unlock(file: *mut sqlite3_file, level: c_int) -> c_int {
    hand_on!(file.xUnlock(level))
}

unsafe extern "C" fn check_reserved_lock(file: *mut sqlite3_file, out: *mut c_int) -> c_int {
    hand_on!(file.xCheckReservedLock(out))
}

unsafe extern "C" fn file_control(
    file: *mut sqlite3_file,
    op: c_int,
    argument: *mut c_void,
) -> c_int {
    hand_on!(file.xFileControl(op, argument))
}

unsafe extern "C" fn sector_size(file: *mut sqlite3_file) -> c_int {
    hand_on!(file.xSectorSize())
}

unsafe extern "C" fn device_characteristics(file: *mut sqlite3_file) -> c_int {
    hand_on!(file.xDeviceCharacteristics())
}

unsafe extern "C" fn shm_map(
    file: *mut sqlite3_file,
    page: c_int,
    size: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    hand_on!(file.xShmMap(page, size, extend, out))
}

unsafe extern "C" fn shm_lock(
    file: *mut sqlite3_file,
    offset: c_int,
    n: c_int,
    flags: c_int,
) -> c_int {
    hand_on!(file.xShmLock(offset, n, flags))
}

unsafe extern "C" fn shm_barrier(file: *mut sqlite3_file) {
    hand_on!(file.xShmBarrier());
}

unsafe extern "C" fn shm_unmap(file: *mut sqlite3_file, delete: c_int) -> c_int {
    hand_on!(file.xShmUnmap(delete))
}
