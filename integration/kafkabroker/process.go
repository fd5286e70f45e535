// SPDX-License-Identifier: Apache-2.0

package kafkabroker

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/child"
)

// run starts a program that adds its output to the node's log.
func (n *node) run(cmd *exec.Cmd) error {
	f, err := os.OpenFile(n.path(logName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("start %s: %w", n.name, err)
	}
	defer f.Close() //nolint:errcheck // the child has its own; nothing is written here
	from, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("start %s: %w", n.name, err)
	}
	n.logFrom.Store(from)
	cmd.Stdout, cmd.Stderr = f, f
	p, err := child.Start(n.name, cmd)
	if err != nil {
		return err
	}
	n.process.Store(p)
	return nil
}

// died returns an error that says what a process that should run complained about, and nil while it runs.
func (n *node) died() error {
	p := n.process.Load()
	if p.Running() {
		return nil
	}
	return fmt.Errorf("%s ended before it was ready: %s\n%s", n.name, p.State(),
		complaints(n.path(logName), n.logFrom.Load()))
}

const logTail = 8 << 10

// logEnd returns the last lines of a log, of what is in it from an offset on.
func logEnd(path string, from int64) []byte {
	b, err := os.ReadFile(path)
	if err != nil {
		return []byte(err.Error())
	}
	return lastLines(b[min(int(from), len(b)):])
}

// complaints returns the last lines that are not mere information: a broker that fails says why, and then at length how
// it shuts down.
func complaints(path string, from int64) []byte {
	b, err := os.ReadFile(path)
	if err != nil {
		return []byte(err.Error())
	}
	var kept []byte
	for line := range bytes.Lines(b[min(int(from), len(b)):]) {
		if !bytes.Contains(line, []byte("] INFO ")) && !bytes.HasPrefix(line, []byte("\t")) { // nor the rest of a stack trace
			kept = append(kept, line...)
		}
	}
	if len(kept) == 0 {
		return logEnd(path, from)
	}
	return lastLines(kept)
}

func lastLines(b []byte) []byte {
	if cut := len(b) - logTail; cut > 0 {
		b = b[cut:]
		b = b[bytes.IndexByte(b, '\n')+1:]
	}
	return b
}
