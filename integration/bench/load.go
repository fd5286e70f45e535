// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// load is what happened while ConfigMaps were patched, by resourceVersion.
type load struct {
	seen map[string]time.Time // by the plain watch
	// answered is when the writer had the API server's answer.
	answered map[string]time.Time
	// rate is how many patches a second there were.
	rate float64
}

// writers is enough for 500 patches a second that take 30 ms each.
const writers = 16

// runLoad sends n patches at a fixed rate, and returns when all were answered and the watch has seen them.
func runLoad(ctx context.Context, config *rest.Config, version string, rate, n int) (*load, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The watch has a connection of its own, so that it does not wait behind answers to the writers.
	watching := rest.CopyConfig(config)
	watching.NextProtos = []string{"http/1.1"}
	stream, err := openWatch(ctx, watching, version)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stream.Close() }()
	l := &load{}
	var g errgroup.Group
	g.Go(func() (err error) {
		l.seen, err = readWatch(stream, n)
		return err
	})
	g.Go(func() (err error) {
		began := time.Now()
		l.answered, err = patch(ctx, config, rate, n)
		l.rate = float64(n) / time.Since(began).Seconds()
		if err != nil {
			cancel() // the watch would wait for patches that never come
		}
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, errors.Join(err, context.Cause(ctx))
	}
	return l, nil
}

func openWatch(ctx context.Context, config *rest.Config, version string) (io.ReadCloser, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	stream, err := client.CoreV1().RESTClient().Get().Namespace(loadNamespace).Resource("configmaps").
		Param("watch", "true").Param("resourceVersion", version).SetHeader("Accept", "application/json").Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("watch ConfigMaps: %w", err)
	}
	return stream, nil
}

// readWatch notes when each of n frames has been read.
func readWatch(stream io.Reader, n int) (map[string]time.Time, error) {
	seen := make(map[string]time.Time, n)
	frames := bufio.NewReaderSize(stream, 64<<10)
	for len(seen) < n {
		frame, err := frames.ReadSlice('\n')
		if err != nil {
			return nil, fmt.Errorf("watch ConfigMaps: %d of %d changes: %w", len(seen), n, err)
		}
		at := time.Now()
		version, err := versionOf(frame)
		if err != nil {
			return nil, err
		}
		seen[version] = at
	}
	return seen, nil
}

// versionOf finds the resourceVersion of a ConfigMap, whose metadata comes before its data.
func versionOf(object []byte) (string, error) {
	_, after, ok := bytes.Cut(object, []byte(`"resourceVersion":"`))
	version, _, ok2 := bytes.Cut(after, []byte(`"`))
	if !ok || !ok2 {
		return "", fmt.Errorf("no resourceVersion in %.200q", object)
	}
	return string(version), nil
}

// patch sends n patches, each when it is due whether or not earlier ones are answered, as long as there are writers.
func patch(ctx context.Context, config *rest.Config, rate, n int) (map[string]time.Time, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	answered := make(map[string]time.Time, n)
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(writers)
	began := time.Now()
	for i := range n {
		select {
		case <-ctx.Done():
			return nil, errors.Join(g.Wait(), context.Cause(ctx))
		case <-time.After(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(rate)))):
		}
		g.Go(func() error {
			body := fmt.Appendf(nil, `{"data":{"n":"%d"}}`, i+1)
			answer, err := client.CoreV1().RESTClient().Patch(types.MergePatchType).Namespace(loadNamespace).Resource(
				"configmaps").
				Name(configMapName(i)).SetHeader("Accept", "application/json").Body(body).Do(ctx).Raw()
			at := time.Now()
			if err != nil {
				return fmt.Errorf("patch %s: %w", configMapName(i), err)
			}
			version, err := versionOf(answer)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			answered[version] = at
			return nil
		})
	}
	return answered, g.Wait()
}
