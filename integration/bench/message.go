// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// What all publishers publish to.
const (
	streamName    = "KUBERNETES"
	subjectPrefix = "k8s.bench.core.pods."
	window        = 512
)

// defaultStream is what the stream of the others is where no bridge has created one before.
func defaultStream() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: streamName, Subjects: []string{"k8s.>"}, Storage: jetstream.FileStorage,
		Replicas: 1, Duplicates: 2 * time.Minute, AllowDirect: true,
	}
}

func subjectOf(namespace, name string) string { return subjectPrefix + namespace + "." + name }

// sample is a message as it is found in the log: what the bare publisher repeats.
type sample struct {
	Header nats.Header
	Data   []byte
}

// defaultSample is what the bridge would send, for when there is no bridge to ask.
func defaultSample() (*sample, error) {
	t, err := newTemplate(pods)
	if err != nil {
		return nil, err
	}
	var pod map[string]any
	if err := json.Unmarshal(t.appendWatched(nil, 0, baseVersion), &pod); err != nil {
		return nil, fmt.Errorf("decode the pod: %w", err)
	}
	if meta, ok := pod["metadata"].(map[string]any); ok {
		delete(meta, "managedFields")
	}
	data, err := json.Marshal(pod)
	if err != nil {
		return nil, fmt.Errorf("encode the pod: %w", err)
	}
	id := identityOf(0)
	return &sample{Header: headers(id, strconv.Itoa(baseVersion), "updated", time.Now()), Data: data}, nil
}

// headers returns the attributes of an event in the NATS binding, one map a message.
func headers(id objectIdentity, version, op string, now time.Time) nats.Header {
	const epoch = "1795276800"
	at, eventID := now.UTC().Format(time.RFC3339Nano), id.UID+"."+epoch+"."+version+".0"
	return nats.Header{
		nats.MsgIdHdr:        {"6c62272e07bb0142." + eventID},
		"ce-specversion":     {"1.0"},
		"ce-type":            {"io.kube-eventbridge.resource." + op + ".v1"},
		"ce-source":          {"/clusters/bench/api/v1/pods"},
		"ce-subject":         {id.Namespace + "/" + id.Name},
		"ce-id":              {eventID},
		"ce-time":            {at},
		"ce-datacontenttype": {"application/json"},
		"ce-payload":         {"object"},
		"ce-pipeline":        {"bench"},
		"ce-apiversion":      {"v1"},
		"ce-kind":            {"Pod"},
		"ce-resource":        {"pods"},
		"ce-namespace":       {id.Namespace},
		"ce-name":            {id.Name},
		"ce-objectuid":       {id.UID},
		"ce-resourceversion": {version},
		"ce-clustername":     {"bench"},
		"ce-partitionkey":    {"bench/core/pods/" + id.Namespace + "/" + id.Name},
		"ce-sequence":        {fmt.Sprintf(epoch+".%020s.0", version)},
		"ce-recordedtime":    {at},
		"ce-reason":          {"watch"},
		"ce-fieldmanager":    {"kubelet"},
	}
}

func readSample(file string) (*sample, error) {
	if file == "" {
		return defaultSample()
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read sample: %w", err)
	}
	s := &sample{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("decode %s: %w", file, err)
	}
	return s, nil
}

func (s *sample) write(file string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode the sample: %w", err)
	}
	return os.WriteFile(file, text, 0o600)
}

// size returns the length of the data and of the headers on the wire.
func (s *sample) size() (data, header int) {
	for name, values := range s.Header {
		for _, v := range values {
			header += len(name) + len(": \r\n") + len(v)
		}
	}
	return len(s.Data), header + len("NATS/1.0\r\n\r\n")
}

// connect returns a JetStream client with a window of the size that all publishers have. failed is told of messages
// that were not acknowledged, from any goroutine.
func connect(url string, failed func(error)) (*nats.Conn, jetstream.JetStream, error) {
	conn, err := nats.Connect(url)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to %s: %w", url, err)
	}
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(window),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, _ *nats.Msg, err error) { failed(err) }))
	if err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("use JetStream of %s: %w", url, err)
	}
	return conn, js, nil
}
