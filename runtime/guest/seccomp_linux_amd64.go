package guest

import "golang.org/x/sys/unix"

// deniedAMD64 is denied besides what every architecture denies.
var deniedAMD64 = []uint32{
	unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS_USTAT, unix.SYS_SYSFS, unix.SYS__SYSCTL,
	unix.SYS_CREATE_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS_QUERY_MODULE, unix.SYS_KEXEC_FILE_LOAD,
}

func nativeFilter() (program, error) {
	return filter(unix.AUDIT_ARCH_X86_64, deniedAMD64, true), nil
}
