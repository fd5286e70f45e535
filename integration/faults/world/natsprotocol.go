// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/proxy"
)

// natsProtocol is what a wire knows of NATS.
var natsProtocol = protocol{
	read: readNATSFrame,
	request: func(_ *proxy.Conn, frame []byte) content {
		if isPublish(frame) {
			return ofLog
		}
		return other
	},
	answer: func(_ *proxy.Conn, frame []byte) content {
		switch {
		case isCommit(frame):
			return ofCheckpoint
		case isAnswer(frame):
			return ofLog
		}
		return other
	},
	code: acknowledgedWith,
}

// acknowledgedWith returns the error code in JetStream's answer to a published message; 0 is none.
func acknowledgedWith(frame []byte) (int16, error) {
	_, payload, _ := bytes.Cut(frame, []byte("\r\n"))
	var refused struct {
		Error jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(payload, &refused); err != nil {
		return 0, fmt.Errorf("answer to a published message: %w", err)
	}
	return int16(refused.Error.ErrorCode), nil //nolint:gosec // codes have five digits
}

// readNATSFrame reads one operation of the NATS protocol, with its payload and as it came.
func readNATSFrame(r *bufio.Reader) ([]byte, error) {
	frame, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	n, err := payloadSize(frame)
	if err != nil || n < 0 {
		return frame, err
	}
	at := len(frame)
	frame = append(frame, make([]byte, n+2)...) // and its line end
	_, err = io.ReadFull(r, frame[at:])
	return frame, err
}

// payloadSize returns how many bytes follow the line of an operation, -1 if it has no payload.
func payloadSize(line []byte) (int, error) {
	verb, rest, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(" "))
	switch string(bytes.ToUpper(verb)) {
	case "PUB", "HPUB", "MSG", "HMSG":
	default:
		return -1, nil
	}
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0, errors.New("an operation with a payload does not say its size")
	}
	n, err := strconv.Atoi(string(fields[len(fields)-1]))
	if err != nil || n < 0 || n > proxy.MaxFrame {
		return 0, fmt.Errorf("size of a payload: %q", fields[len(fields)-1])
	}
	return n, nil
}

// isPublish says whether a client's frame is a message for the log: those have headers.
func isPublish(frame []byte) bool {
	return bytes.HasPrefix(frame, []byte("HPUB ")) && bytes.Contains(frame, []byte("\r\nNats-Msg-Id:"))
}

// isAnswer says whether a server's frame is JetStream's answer to a published message, a refusal too; not to a question
// of the API.
func isAnswer(frame []byte) bool {
	line, payload, ok := bytes.Cut(frame, []byte("\r\n"))
	return ok && bytes.HasPrefix(line, []byte("MSG ")) &&
		(bytes.HasPrefix(payload, []byte(`{"stream":`)) || bytes.HasPrefix(payload, []byte(`{"error":`)))
}

// isCommit says whether a server's frame is the answer to something published to a key-value bucket.
func isCommit(frame []byte) bool {
	return isAnswer(frame) && bytes.Contains(frame, []byte(`"stream":"KV_`))
}
