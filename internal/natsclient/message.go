// SPDX-License-Identifier: Apache-2.0

package natsclient

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Message is a message that a stream has.
type Message struct {
	Sequence uint64    `json:"seq"`
	Header   []byte    `json:"hdrs"`
	Data     []byte    `json:"data"`
	Time     time.Time `json:"time"`
}

// Get returns the message of a stream that which says, nil if there is none. It asks the stream's leader, never a
// replica, which may be behind. API is the prefix of JetStream's own subjects.
func Get(ctx context.Context, nc *gonats.Conn, api, stream string, which map[string]any) (*Message, error) {
	query, err := json.Marshal(which)
	if err != nil {
		return nil, err
	}
	reply, err := nc.RequestWithContext(ctx, api+".STREAM.MSG.GET."+stream, query)
	if err != nil {
		return nil, err
	}
	var r struct {
		Error   *jetstream.APIError `json:"error"`
		Message Message             `json:"message"`
	}
	if err := json.Unmarshal(reply.Data, &r); err != nil {
		return nil, err
	}
	switch {
	case r.Error != nil && r.Error.ErrorCode == CodeNoMessage:
		return nil, nil
	case r.Error != nil:
		return nil, r.Error
	case r.Message.Sequence == 0:
		return nil, errors.New("the answer has no message")
	}
	return &r.Message, nil
}
