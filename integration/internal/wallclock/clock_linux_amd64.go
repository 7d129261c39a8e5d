package wallclock

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
	"time"
)

// A Clock is the wall clock of one process. Go programs read clocks by a function
// that the kernel puts into their memory (the vDSO). The process is stopped before
// its first instruction, and that function replaced by one that asks the kernel
// and adds to the answer.
type Clock struct {
	pid int
	at  int64 // where the offset is in the memory of the process
}

// Start starts a command whose wall clock shows the true time plus an offset, in
// whole seconds. An error that is os.ErrPermission or errors.ErrUnsupported says
// that it cannot be done here; nothing runs then.
func (c *Clock) Start(cmd *exec.Cmd, ahead time.Duration) error {
	offset, err := vdsoOffset("__vdso_clock_gettime")
	if err != nil {
		return err
	}
	runtime.LockOSThread() // only the thread that traces may touch the traced
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	if err := errors.Join(c.wind(pid, offset), c.Step(ahead), syscall.PtraceDetach(pid)); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return err
	}
	return nil
}

func (c *Clock) wind(pid int, offset uint64) error {
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &status, 0, nil)
		if err == nil {
			break
		} else if !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("wait for the start of process %d: %w", pid, err)
		}
	}
	if !status.Stopped() {
		return fmt.Errorf("process %d has not stopped at its start: status %#x", pid, status)
	}
	base, err := vdsoBase(pid)
	if err != nil {
		return err
	}
	code, seconds := shiftedClock(base + offset)
	if _, err := syscall.PtracePokeText(pid, uintptr(base+offset), code); err != nil {
		return fmt.Errorf("change the clock of process %d: %w", pid, err)
	}
	c.pid, c.at = pid, int64(base+offset)+seconds
	return nil
}

// Step sets the clock to the true time plus an offset, in whole seconds.
func (c *Clock) Step(ahead time.Duration) error {
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", c.pid), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = memory.WriteAt(binary.LittleEndian.AppendUint32(nil, uint32(int32(ahead/time.Second))), c.at)
	return errors.Join(err, memory.Close())
}

// shiftedClock is clock_gettime(edi: which clock, rsi: result) at an address, with
// an offset on clock 0, the wall clock. The offset is aligned, so that it can be
// changed in one piece.
func shiftedClock(at uint64) (code []byte, seconds int64) {
	code = []byte{
		0xb8, 0xe4, 0, 0, 0, // mov eax, 228 (clock_gettime)
		0x0f, 0x05, //          syscall
		0x85, 0xff, //          test edi, edi
		0x75, 0, //             jne end
	}
	jump := len(code)
	for (at+uint64(len(code))+3)%4 != 0 {
		code = append(code, 0x90) // nop
	}
	code = append(code, 0x48, 0x81, 0x06) // add qword [rsi], seconds
	seconds = int64(len(code))
	code = append(code, 0, 0, 0, 0)
	code[jump-1] = byte(len(code) - jump)
	return append(code, 0xc3), seconds // end: ret
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
