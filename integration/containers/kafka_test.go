// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/kafka"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

const (
	kafkaPort  = "9093/tcp"
	kafkaTopic = "kubernetes"
)

// kafkaLog is a broker of Kafka in a container, which is its own controller.
type kafkaLog struct {
	testcontainers.Container
	address string
}

func newKafka(t *testing.T) *kafkaLog {
	t.Helper()
	port := freePort(t)
	l := &kafkaLog{address: fmt.Sprintf("127.0.0.1:%d", port)}
	if official() {
		c, err := kafka.Run(t.Context(), "confluentinc/confluent-local:7.5.0", published(port, kafkaPort))
		ended(t, c, err)
		l.Container = c
		return l
	}
	c, err := testcontainers.Run(t.Context(), kafkaImage(t),
		testcontainers.WithExposedPorts(kafkaPort), published(port, kafkaPort),
		testcontainers.WithFiles(testcontainers.ContainerFile{
			Reader: strings.NewReader(kafkaProperties(l.address)), ContainerFilePath: "/server.properties", FileMode: 0o644,
		}))
	ended(t, c, err)
	l.Container = c
	return l
}

// kafkaProperties configures a broker that clients find at an address.
func kafkaProperties(address string) string {
	return `node.id=1
process.roles=broker,controller
controller.quorum.voters=1@127.0.0.1:9094
controller.listener.names=CONTROLLER
inter.broker.listener.name=INTERNAL
listeners=OUTSIDE://:9093,INTERNAL://127.0.0.1:9092,CONTROLLER://127.0.0.1:9094
advertised.listeners=OUTSIDE://` + address + `,INTERNAL://127.0.0.1:9092
listener.security.protocol.map=OUTSIDE:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=/data
auto.create.topics.enable=false
default.replication.factor=1
min.insync.replicas=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.num.partitions=3
log.cleaner.dedupe.buffer.size=4194304
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
`
}

// kafkaImage has a Java runtime, Kafka's jars, and a data directory that is formatted, since nothing in it could run
// two programs.
func kafkaImage(t *testing.T) string {
	t.Helper()
	ctx := t.Context()
	jars := must.Get(kafkabroker.Jars(ctx, os.Stderr))(t)
	java := must.Get(cached(ctx, "java-"+javaVersion(t), func(tmp string) error {
		out, err := exec.CommandContext(ctx, "jlink", "--add-modules", "java.se,jdk.unsupported",
			"--strip-java-debug-attributes",
			"--no-header-files", "--no-man-pages", "--output", tmp).CombinedOutput()
		if err != nil {
			return fmt.Errorf("jlink: %w\n%s", err, out)
		}
		return nil
	}))(t)
	i := &image{
		name:  "kafka",
		files: map[string]string{"/kafka": jars},
		texts: map[string]string{"/server.properties": kafkaProperties("127.0.0.1:9093")},
		steps: []string{
			`RUN ["/java/bin/java", "-cp", "/kafka/*", "kafka.tools.StorageTool", "format", "-t", "a3ViZS1ldmVudGJyaWRnZQ", "-c", "/server.properties"]`,
			`ENTRYPOINT ["/java/bin/java", "-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError", ` +
				`"-cp", "/kafka/*", "kafka.Kafka", "/server.properties"]`,
		},
	}
	loads := must.Get(filepath.Glob(filepath.Join(java, "lib", "*.so")))(t)
	vm := must.Get(filepath.Glob(filepath.Join(java, "lib", "server", "*.so")))(t)
	require.NoError(t, withLibraries(ctx, i.files, "/java/bin/java", filepath.Join(java, "bin", "java"),
		append(loads, vm...)...))
	i.files["/java"] = java
	delete(i.files, "/java/bin/java") // it is in there
	return i.build(t)
}

// javaVersion returns that of the java whose jlink is used.
func javaVersion(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "jlink", "--version").CombinedOutput()
	require.NoError(t, err, "jlink --version: %v (Debian: apt-get install default-jdk-headless)\n%s", err, out)
	return strings.TrimSpace(string(out))
}

func (l *kafkaLog) sink() string {
	return fmt.Sprintf("sink: {kafka: {brokers: [%q], create: {partitions: 3, replicas: 1}}}\n    checkpoint: {kafka: "+
		"{replicas: 1}}", l.address)
}

// log reads the topic with a client that nothing of the bridge is made of.
func (l *kafkaLog) log(t *testing.T) rig.Log {
	t.Helper()
	log := must.Get(rig.KafkaLog(kafkaTopic, []string{l.address}))(t)
	t.Cleanup(log.Close)
	return log
}
