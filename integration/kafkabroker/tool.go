// SPDX-License-Identifier: Apache-2.0

package kafkabroker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Tool runs the main class of one of Kafka's own command-line tools, such as
// org.apache.kafka.tools.ProducerPerformance, and returns what it prints to stdout. If it fails, the error has the end
// of what it printed. It is killed when ctx ends. Java has 512 MB of heap and otherwise its own defaults, as in Kafka's
// scripts, so that what a tool measures is what they would.
func (c *Cluster) Tool(ctx context.Context, class string, args ...string) ([]byte, error) {
	return c.inst.run(ctx, []string{"-Xmx512m"}, class, args...)
}

// Bootstrap returns what a tool, or a client that is no subject of the test, can take for "--bootstrap-server": the
// addresses, joined by commas, of the listener that asks for nothing and permits everything.
func (c *Cluster) Bootstrap() string { return strings.Join(c.AddressesOf(internalListener), ",") }

// ConsoleConsumer runs Kafka's console consumer on a topic and returns what it prints. The arguments are its own, such
// as "--from-beginning". It ends by itself only with "--max-messages" or "--timeout-ms", otherwise with ctx, which is
// an error. Unless the arguments name a "--bootstrap-server", it comes as somebody who may do everything.
func (c *Cluster) ConsoleConsumer(ctx context.Context, topic string, args ...string) ([]byte, error) {
	if !slices.Contains(args, "--bootstrap-server") {
		args = append([]string{"--bootstrap-server", c.Bootstrap()}, args...)
	}
	args = append([]string{"--topic", topic}, args...)
	return c.inst.run(ctx, quickOptions, "org.apache.kafka.tools.consumer.ConsoleConsumer", args...)
}

// run runs a class until it ends, and returns what it prints to stdout.
func (i *installation) run(ctx context.Context, options []string, class string, args ...string) ([]byte, error) {
	options = append([]string{"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"}, options...)
	cmd := exec.CommandContext(ctx, i.java.path, i.args(options, class, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, &stderr, 5*time.Second
	if err := cmd.Run(); err != nil {
		return stdout.Bytes(), fmt.Errorf("run %s: %w\n%s%s", class, errors.Join(context.Cause(ctx), err),
			last(stdout.Bytes()), last(stderr.Bytes()))
	}
	return stdout.Bytes(), nil
}
