package helix

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startAhead starts a command whose wall clock is ahead of the machine's, or
// behind it; its other clocks are not changed. Programs read clocks by a
// function that the kernel puts into their memory (the vDSO). The command is
// stopped before its first instruction, and this function replaced by one that
// asks the kernel and adds to the answer.
func startAhead(t testing.TB, cmd *exec.Cmd, ahead time.Duration) error {
	t.Helper()
	offset, err := vdsoOffset("__vdso_clock_gettime")
	if err != nil {
		return err
	}
	runtime.LockOSThread() // only the thread that traces may touch the traced
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		if errors.Is(err, syscall.EPERM) {
			t.Skip("may not trace a process here, so its clock cannot be changed")
		}
		return err
	}
	pid := cmd.Process.Pid
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
		return fmt.Errorf("wait for the start of process %d: %w", pid, err)
	}
	if !status.Stopped() {
		return fmt.Errorf("process %d has not stopped at its start: status %#x", pid, status)
	}
	base, err := vdsoBase(pid)
	if err != nil {
		return err
	}
	if _, err := syscall.PtracePokeText(pid, uintptr(base+offset), shiftedClock(ahead)); err != nil {
		return fmt.Errorf("change the clock of process %d: %w", pid, err)
	}
	return syscall.PtraceDetach(pid)
}

// shiftedClock is clock_gettime(edi: which clock, rsi: result) with an offset
// on clock 0, the wall clock.
func shiftedClock(ahead time.Duration) []byte {
	code := []byte{
		0xb8, 0xe4, 0, 0, 0, // mov eax, 228 (clock_gettime)
		0x0f, 0x05, //          syscall
		0x85, 0xff, //          test edi, edi
		0x75, 0x07, //          jne end
		0x48, 0x81, 0x06, //    add qword [rsi], seconds
	}
	code = binary.LittleEndian.AppendUint32(code, uint32(int32(ahead/time.Second)))
	return append(code, 0xc3) // end: ret
}

// vdsoOffset returns where a function is in the vDSO, which is the same for all
// processes.
func vdsoOffset(function string) (uint64, error) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return 0, err
	}
	var from, to uint64
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err != nil {
				return 0, fmt.Errorf("line %q of the memory map: %w", line, err)
			}
		}
	}
	if from == 0 {
		return 0, errors.New("no vDSO in the memory map")
	}
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		return 0, err
	}
	defer memory.Close()
	image := make([]byte, to-from)
	if _, err := io.ReadFull(io.NewSectionReader(memory, int64(from), int64(to-from)), image); err != nil {
		return 0, fmt.Errorf("read the vDSO: %w", err)
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, fmt.Errorf("parse the vDSO: %w", err)
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return 0, fmt.Errorf("symbols of the vDSO: %w", err)
	}
	for _, s := range symbols {
		if s.Name == function {
			return s.Value, nil
		}
	}
	return 0, fmt.Errorf("the vDSO has no %s", function)
}

// vdsoBase returns where the vDSO of a process is.
func vdsoBase(pid int) (uint64, error) {
	const header = 33 // AT_SYSINFO_EHDR
	vector, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid))
	if err != nil {
		return 0, err
	}
	for ; len(vector) >= 16; vector = vector[16:] {
		if binary.LittleEndian.Uint64(vector) == header {
			return binary.LittleEndian.Uint64(vector[8:]), nil
		}
	}
	return 0, fmt.Errorf("process %d has no vDSO", pid)
}
