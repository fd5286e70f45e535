// SPDX-License-Identifier: Apache-2.0

// Package bucket writes objects into an object store of NATS JetStream as its clients do, and knows what its stream has
// to be like. The library's own Put waits in a goroutine that may outlive the connection.
package bucket

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// chunkSize is the object store's own default.
const chunkSize = 128 << 10

// Name returns the name of the bucket in which what is too large for a stream is kept.
func Name(stream string) string { return stream + "-objects" }

// Stream returns the name of the stream that a bucket is.
func Stream(bucket string) string { return "OBJ_" + bucket }

// Uses reports whether who puts objects into a bucket publishes to a subject.
func Uses(bucket, subject string) bool {
	return strings.HasPrefix(subject, "$O."+bucket+".") || strings.Contains(subject, "."+Stream(bucket))
}

// Put stores data under a name, in place of what is there, unless that is the same. The error is ctx's, or the
// server's: then what was written is removed if that can be.
func Put(
	ctx context.Context, nc *gonats.Conn, js jetstream.JetStream, store jetstream.ObjectStore, bucket, name string,
	data []byte,
) error {
	digest := sha256.New()
	_, _ = digest.Write(data) // never fails
	info := &jetstream.ObjectInfo{
		ObjectMeta: jetstream.ObjectMeta{Name: name}, Bucket: bucket, NUID: rand.Text(), Size: uint64(len(data)),
		Digest: jetstream.GetObjectDigestValue(digest),
	}
	has, err := store.GetInfo(ctx, name)
	switch {
	case err == nil && has.Size == info.Size && has.Digest == info.Digest:
		return nil
	case err != nil && !errors.Is(err, jetstream.ErrObjectNotFound):
		return err
	}
	chunk := min(chunkSize, max(1, nc.MaxPayload()/2))
	if err := write(ctx, js, info, data, int(chunk)); err != nil {
		return err
	}
	if has != nil {
		return forget(ctx, js, has)
	}
	return nil
}

// write writes an object as the object store's clients do: its bytes in messages of their own subject, then the message
// that says what they are. The library's own Put waits in a goroutine that may outlive the connection.
func write(ctx context.Context, js jetstream.JetStream, info *jetstream.ObjectInfo, data []byte, chunk int) error {
	only := jetstream.WithExpectStream(Stream(info.Bucket))
	for part := range slices.Chunk(data, chunk) {
		if _, err := js.Publish(ctx, chunksOf(info), part, only); err != nil {
			_ = forget(ctx, js, info) // what stays disturbs no reader, and ends with its time to live
			return err
		}
		info.Chunks++
	}
	what, err := json.Marshal(info)
	if err != nil {
		return err
	}
	m := gonats.NewMsg("$O." + info.Bucket + ".M." + base64.URLEncoding.EncodeToString([]byte(info.Name)))
	m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	m.Data = what
	_, err = js.PublishMsg(ctx, m, only)
	return err
}

// forget removes the bytes of an object that another one has replaced, or that was not completed. Where it is not known
// whether it was, they stay.
func forget(ctx context.Context, js jetstream.JetStream, info *jetstream.ObjectInfo) error {
	st, err := js.Stream(ctx, Stream(info.Bucket))
	if err != nil {
		return err
	}
	return st.Purge(ctx, jetstream.WithPurgeSubject(chunksOf(info)))
}

func chunksOf(info *jetstream.ObjectInfo) string { return "$O." + info.Bucket + ".C." + info.NUID }

// Broken returns why a bucket must not be used that has these settings; empty if it may.
func Broken(bucket string, c jetstream.StreamConfig) (reason string) {
	for _, rule := range rules {
		if rule.broken(bucket, c) {
			return rule.reason
		}
	}
	return ""
}

var rules = []struct {
	broken func(bucket string, c jetstream.StreamConfig) bool
	reason string
}{
	{func(_ string, c jetstream.StreamConfig) bool { return c.Sealed }, "it is sealed: nothing can be put into it"},
	{
		func(bucket string, c jetstream.StreamConfig) bool {
			return !slices.Contains(c.Subjects, "$O."+bucket+".C.>") || !slices.Contains(c.Subjects, "$O."+bucket+".M.>")
		},
		"its stream has other subjects than those of an object store",
	},
	{
		func(_ string, c jetstream.StreamConfig) bool { return !c.AllowRollup },
		"its stream allows no rollup, by which an object is replaced",
	},
}

// Costs says what a bucket's settings cost, beside a log that keeps events for a time.
func Costs(bucket string, c jetstream.StreamConfig, keeps time.Duration) (warnings []string) {
	if c.Storage == jetstream.MemoryStorage {
		warnings = append(warnings, "bucket "+bucket+" is kept in memory: its objects end with the servers")
	}
	if c.MaxAge > 0 && (keeps == 0 || c.MaxAge < keeps) {
		of := "without a limit"
		if keeps > 0 {
			of = "for " + keeps.String()
		}
		warnings = append(warnings,
			fmt.Sprintf("bucket %s keeps objects for %v, and the stream events %s: what older events refer to is gone",
				bucket, c.MaxAge, of))
	}
	if c.MaxBytes > 0 {
		warnings = append(warnings,
			fmt.Sprintf("bucket %s takes %d bytes: when it is full, what is too large for the stream waits", bucket, c.MaxBytes))
	}
	return warnings
}
