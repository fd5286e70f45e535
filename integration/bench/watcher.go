// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// watcherRole is the least that publishes changes of ConfigMaps one by one: a plain watch of client-go, json.Marshal,
// and a publish that waits for its acknowledgement. It ends with ctx.
func watcherRole(ctx context.Context, args []string, _ io.Reader, stdout io.Writer) error {
	flags := flag.NewFlagSet("watcher", flag.ContinueOnError)
	url := flags.String("broker", nats.DefaultURL, "NATS `URL`")
	file := flags.String("kubeconfig", "", "kubeconfig `file`")
	version := flags.String("version", "", "resourceVersion to watch from")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *file)
	if err != nil {
		return fmt.Errorf("read %s: %w", *file, err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	changes, err := client.CoreV1().ConfigMaps(loadNamespace).Watch(ctx, metav1.ListOptions{ResourceVersion: *version})
	if err != nil {
		return fmt.Errorf("watch ConfigMaps: %w", err)
	}
	defer changes.Stop()
	conn, js, err := connect(*url, func(error) {})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := say(stdout, report{Ready: *url}); err != nil {
		return err
	}
	for e := range changes.ResultChan() {
		m, err := messageOf(e)
		if err != nil {
			return err
		}
		if _, err := js.PublishMsg(ctx, m); err != nil {
			return fmt.Errorf("publish %s: %w", m.Subject, err)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return errors.New("the watch has ended")
}

// messageOf returns what a watch says of a ConfigMap.
func messageOf(e watch.Event) (*nats.Msg, error) {
	o, ok := e.Object.(*corev1.ConfigMap)
	if !ok {
		return nil, fmt.Errorf("the watch has given %T, not a ConfigMap", e.Object)
	}
	data, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode ConfigMap %s: %w", o.Name, err)
	}
	m := nats.NewMsg("k8s.bench.core.configmaps." + o.Namespace + "." + o.Name)
	m.Data = data
	for name, v := range map[string]string{
		nats.MsgIdHdr: string(o.UID) + "." + o.ResourceVersion, "ce-specversion": "1.0", "ce-id": o.ResourceVersion,
		"ce-type": "change", "ce-source": loadNamespace, "ce-time": time.Now().UTC().Format(time.RFC3339Nano),
		"ce-resourceversion": o.ResourceVersion, "content-type": "application/json",
	} {
		m.Header[name] = []string{v}
	}
	return m, nil
}
