// SPDX-License-Identifier: Apache-2.0

package kafkabroker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
)

// ForTest returns a cluster that is closed when the test ends. With go test -short, and where Kafka is not to be had,
// the test is skipped with the reason; in the second case it fails if the environment variable CI is set. If the test
// fails, the end of what the brokers printed is in its log. Progress of a download goes to stderr, unless cfg.Log gets
// it.
func ForTest(t testing.TB, cfg Config) *Cluster {
	t.Helper()
	testtier.Servers(t)
	if cfg.Log == nil {
		cfg.Log = os.Stderr
	}
	c, err := Start(t.Context(), cfg)
	check(t, err)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close Kafka: %v", err)
		}
	})
	logOnFailure(t, c)
	return c
}

var (
	topics  atomic.Int32
	strange = regexp.MustCompile(`[^A-Za-z0-9]+`)
)

// UniqueTopic returns a topic's name that no other call returns. It ends with the test's name and a number.
func UniqueTopic(t testing.TB) string {
	name := strange.ReplaceAllString(t.Name(), "-")
	return fmt.Sprintf("%s-%d", name[max(0, len(name)-60):], topics.Add(1))
}

// DeleteTopic removes a topic, or ends the test. It leaves no connection.
func (c *Cluster) DeleteTopic(t testing.TB, topic string) {
	t.Helper()
	check(t, c.ask(t.Context(), "delete topic "+topic, func(ctx context.Context, cl *kafka.Client) error {
		res, err := cl.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
		if err != nil {
			return err
		}
		return res.Errors[topic]
	}))
}

// AlterTopic sets settings of a topic, and returns once the brokers go by them: that is a moment after they were set.
func (c *Cluster) AlterTopic(t testing.TB, topic string, settings map[string]string) {
	t.Helper()
	change := kafka.IncrementalAlterConfigsRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic}
	for name, value := range settings {
		change.Configs = append(change.Configs, kafka.IncrementalAlterConfigsRequestConfig{
			Name: name, Value: value, ConfigOperation: kafka.ConfigOperationSet,
		})
	}
	check(t, c.ask(t.Context(), "alter topic "+topic, func(ctx context.Context, cl *kafka.Client) error {
		res, err := cl.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{
			Resources: []kafka.IncrementalAlterConfigsRequestResource{change},
		})
		if err != nil {
			return err
		}
		return res.Resources[0].Error
	}))
	check(t, c.ask(t.Context(), "describe topic "+topic, func(ctx context.Context, cl *kafka.Client) error {
		res, err := cl.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
			Resources: []kafka.DescribeConfigRequestResource{{
				ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
				ConfigNames: slices.Collect(maps.Keys(settings)),
			}},
		})
		if err != nil {
			return err
		}
		for _, e := range res.Resources[0].ConfigEntries {
			if want := settings[e.ConfigName]; e.ConfigValue != want {
				return fmt.Errorf("%s is %s, and not %s", e.ConfigName, e.ConfigValue, want)
			}
		}
		return res.Resources[0].Error
	}))
}

// InstallForTest is [Install] for a test, which is skipped as [ForTest] says.
func InstallForTest(t testing.TB) {
	t.Helper()
	testtier.Servers(t)
	check(t, Install(t.Context(), os.Stderr))
}

func check(t testing.TB, err error) {
	t.Helper()
	switch {
	case errors.Is(err, ErrUnavailable):
		testtier.Missing(t, fmt.Sprintf("real Kafka: %v", err))
	case err != nil:
		t.Fatal(err)
	}
}

func logOnFailure(t testing.TB, c *Cluster) {
	began := c.logSizes()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.logsSince(began))
		}
	})
}

// Shared is one cluster for all tests of a package, started by the first that asks for it. In the package:
//
//	var shared = kafkabroker.NewShared(kafkabroker.Config{})
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }
//
//	func TestX(t *testing.T) { c := shared.ForTest(t); … }
//
// Tests use topics of their own. One that stops brokers starts them again, and should rather have a cluster of its own.
type Shared struct {
	cfg     Config
	mu      sync.Mutex
	cluster *Cluster
	err     error
	closed  bool
}

// NewShared returns a cluster that has not been started.
func NewShared(cfg Config) *Shared { return &Shared{cfg: cfg} }

// ForTest returns the cluster, and starts it if no other test has. It skips or fails the test, and logs, as [ForTest]
// does. What could not be started is not tried again.
func (s *Shared) ForTest(t testing.TB) *Cluster {
	t.Helper()
	testtier.Servers(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		t.Fatal(errClosed)
	}
	if s.cluster == nil && s.err == nil {
		cfg := s.cfg
		if cfg.Log == nil {
			cfg.Log = os.Stderr
		}
		s.cluster, s.err = Start(t.Context(), cfg)
	}
	check(t, s.err)
	logOnFailure(t, s.cluster)
	return s.cluster
}

// Close closes the cluster, if it was started. Closing twice is no error.
func (s *Shared) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.cluster == nil {
		return nil
	}
	return s.cluster.Close()
}

// Runner runs the tests of a package; *testing.M is one.
type Runner interface{ Run() int }

// Around returns a Runner that closes the cluster after the tests of m, so before whoever runs it looks for goroutines
// that are left.
func (s *Shared) Around(m Runner) Runner { return around{s, m} }

type around struct {
	s *Shared
	m Runner
}

func (a around) Run() int {
	code := a.m.Run()
	if err := a.s.Close(); err != nil {
		_, _ = os.Stderr.WriteString("close Kafka: " + err.Error() + "\n") // there is no test left to fail but all of them
		return max(code, 1)
	}
	awaitDials()
	return code
}

// awaitDials waits until connections have ended that kafka-go was making when their client was closed: nothing else
// tells of them, and on a busy machine that takes seconds.
func awaitDials() {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && goleak.Find() != nil; {
		runtime.Gosched() // Find waits between its looks
	}
}
