// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/child"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/integration/interop/tools"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
)

// client is an example that reads a log with a CloudEvents SDK.
type client struct {
	name string
	// kafka and nats return the command for each kind of broker.
	kafka, nats func(t *testing.T, w *world) []string
	// daily are the logs that it reads in every run; all four at night.
	daily []string
	// alone says that it joins no group of Kafka's.
	alone bool
}

// clients are the SDKs' examples. Only Go's SDK has a reader for NATS; those for HTTP read its headers, which have the
// same names. All but Python 2's leave percent-encoding on, so the examples take it off. Kafka's console consumer and
// kcat, which know no NATS, have tests of their own. The CLI of NATS is left out: Go's proxy does not have its module
// everywhere.
var clients = []client{
	{"java", java("KafkaExample"), java("NatsExample"), []string{"kafka-binary", "nats-structured"}, false},
	{"python1", python(tools.Python1, "v1_kafka.py"), python(tools.Python1, "v1_nats.py"), []string{"nats-binary"}, false},
	{
		"python2", python(tools.Python2, "v2_kafka.py"), python(tools.Python2, "v2_nats.py"),
		[]string{"kafka-structured"},
		false,
	},
	{"node", node("kafka.js"), node("nats.js"), []string{"kafka-binary"}, false},
	{"go", golang("kafka"), golang("nats"), logs, true},
}

// on returns the command for a log. Its arguments are the address of the broker, the topic or stream, the name of a
// group on Kafka, where no other run has it, and the file of the state.
func (c client) on(t *testing.T, w *world, log, target, run, file string) []string {
	t.Helper()
	if !slices.Contains(c.daily, log) {
		rig.Tier(t, rig.Nightly)
	}
	if onKafka(log) {
		args := append(c.kafka(t, w), w.kafka.Addresses()[0], target)
		if !c.alone {
			args = append(args, c.name+"-"+target+"-"+run)
		}
		return append(args, file)
	}
	return append(c.nats(t, w), w.nats.URL(), target, file)
}

// stateFile returns the name of a file that an example can make.
func stateFile(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "state.json")
}

// installed returns the directory of an installation. Without it the test is skipped, or fails in CI.
func installed(t *testing.T, i tools.Installation) string {
	t.Helper()
	dir, err := i.Dir()
	if err != nil {
		testtier.Missing(t, err.Error())
	}
	return dir
}

// program finds a program. Without it the test is skipped, or fails in CI.
func program(t *testing.T, name, advice string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		testtier.Missing(t, fmt.Sprintf("%s (%v); install %s", name, err, advice))
	}
	return path
}

func java(class string) func(*testing.T, *world) []string {
	return func(t *testing.T, _ *world) []string {
		t.Helper()
		dir := installed(t, tools.Java)
		classpath := filepath.Join(dir, "target", "classes") + string(filepath.ListSeparator) + filepath.Join(dir, "lib", "*")
		return []string{
			program(t, "java", "Java 17 or newer (Debian: apt-get install default-jdk-headless)"),
			"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
			"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", classpath, class,
		}
	}
}

func python(i tools.Installation, script string) func(*testing.T, *world) []string {
	return func(t *testing.T, _ *world) []string {
		t.Helper()
		return []string{filepath.Join(installed(t, i), "venv", "bin", "python"), "-B", "python/" + script}
	}
}

func node(script string) func(*testing.T, *world) []string {
	return func(t *testing.T, _ *world) []string {
		t.Helper()
		return scripted(t, tools.Node, "node", script)
	}
}

// scripted returns the command that runs a script of a directory with the modules of an installation.
func scripted(t *testing.T, i tools.Installation, scripts, script string) []string {
	t.Helper()
	node := program(t, "node", "Node 18 or newer (Debian: apt-get install nodejs)")
	// Node looks for modules beside the script.
	modules, dir := filepath.Join(installed(t, i), "node_modules"), t.TempDir()
	require.NoError(t, tools.Copy(dir, scripts))
	require.NoError(t, os.Symlink(modules, filepath.Join(dir, "node_modules")))
	return []string{node, filepath.Join(dir, script)}
}

func golang(pkg string) func(*testing.T, *world) []string {
	return func(_ *testing.T, w *world) []string { return []string{filepath.Join(w.dir, pkg)} }
}

// buildClients builds those that are written in Go.
func (r *world) buildClients() {
	r.t.Helper()
	build := exec.CommandContext(r.t.Context(), "go", "build", "-trimpath", "-o", r.dir+"/", "./go/kafka", "./go/nats")
	out, err := build.CombinedOutput()
	require.NoError(r.t, err, "build the clients: %v\n%s", err, out)
}

// lines runs a client until it has printed n lines and until returns nil. It returns the lines, also those that came
// while it waited for until, and what the client complained of. If it ends, or takes too long, that is an error. A nil
// until is not waited for.
func lines(t *testing.T, args []string, n int, until func() error) (printed [][]byte, said string, err error) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	var stderr bytes.Buffer
	read, write := io.Pipe()
	cmd.Stdout, cmd.Stderr = write, &stderr
	p, err := child.Start(filepath.Base(args[0]), cmd)
	if err != nil {
		return nil, "", err
	}
	late := time.AfterFunc(rig.Patience(), func() { _ = p.Kill() })
	go func() {
		<-p.Ended()
		_ = write.Close()
	}()
	defer func() {
		late.Stop()
		_ = read.Close() // or its end waits for what is not read
		_ = p.Kill()
	}()
	in := bufio.NewReader(read)
	for len(printed) < n {
		line, err := in.ReadBytes('\n')
		if err != nil {
			<-p.Ended() // what it said is why
			err = fmt.Errorf("after %d of %d lines: %w; %s\n%s", len(printed), n, err, p.State(), stderr.Bytes())
			return printed, stderr.String(), err
		}
		printed = append(printed, line)
	}
	if until == nil {
		_ = p.Kill()
		<-p.Ended() // before what it said is read
		return printed, stderr.String(), nil
	}
	more := make(chan [][]byte)
	go func() { more <- rest(in) }()
	rig.Try(t, "the client to save its state", until)
	_ = p.Kill()
	printed = append(printed, <-more...)
	<-p.Ended()
	return printed, stderr.String(), nil
}

// rest returns the lines that are left.
func rest(in *bufio.Reader) (lines [][]byte) {
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return lines
		}
		lines = append(lines, line)
	}
}

// read runs a client until it has printed n events.
func read(t *testing.T, args []string, n int) []*event {
	t.Helper()
	return readUntil(t, args, n, nil)
}

// readUntil runs a client until it has printed n events and until returns nil, and returns all.
func readUntil(t *testing.T, args []string, n int, until func() error) []*event {
	t.Helper()
	printed, _, err := lines(t, args, n, until)
	var events []*event
	for _, line := range printed {
		e, err := parseLine(line)
		require.NoError(t, err, "in %.2000s", line)
		events = append(events, e)
	}
	require.NoError(t, err, "it has read %v", events)
	return events
}
