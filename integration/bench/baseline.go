// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// baselineRole does what most exporters of Kubernetes events do: a dynamic shared informer, whose objects are encoded
// again and published without waiting for each. It keeps no order and no position, and runs until ctx ends.
func baselineRole(ctx context.Context, args []string, _ io.Reader, stdout io.Writer) error {
	flags := flag.NewFlagSet("baseline", flag.ContinueOnError)
	url := flags.String("broker", nats.DefaultURL, "NATS `URL`")
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig `file`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	conn, js, err := connect(*url, func(err error) { fail(fmt.Errorf("publish: %w", err)) })
	if err != nil {
		return err
	}
	defer conn.Close()

	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	informer := factory.ForResource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Informer()
	publish := func(op string) func(any) {
		return func(obj any) {
			if err := publishObject(js, obj, op); err != nil {
				fail(err)
			}
		}
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc: publish("added"), DeleteFunc: publish("deleted"),
		UpdateFunc: func(_, obj any) { publish("updated")(obj) },
	}
	if _, err := informer.AddEventHandler(handler); err != nil {
		return fmt.Errorf("add the handler: %w", err)
	}
	if err := say(stdout, report{Ready: *url}); err != nil {
		return err
	}
	informer.RunWithContext(ctx)
	return context.Cause(ctx)
}

func publishObject(js jetstream.JetStream, obj any, op string) error {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil // a tombstone: nothing is deleted here
	}
	data, err := json.Marshal(u.Object)
	if err != nil {
		return fmt.Errorf("encode %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	id := podIdentity{Namespace: u.GetNamespace(), Name: u.GetName(), UID: string(u.GetUID())}
	m := &nats.Msg{Subject: subjectOf(id.Namespace, id.Name), Header: headers(id, u.GetResourceVersion(), op, time.Now()), Data: data}
	if _, err := js.PublishMsgAsync(m, jetstream.WithStallWait(30*time.Second)); err != nil {
		return fmt.Errorf("publish %s: %w", m.Subject, err)
	}
	return nil
}
