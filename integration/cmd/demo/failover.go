// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/try"
)

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// failover is how west follows east, stands in for it, and hands back.
type failover struct {
	*sites
	lags []time.Duration // from the answer to a write until the other cluster had it
}

func newFailover(b *base) *failover {
	return &failover{sites: &sites{base: b, east: &site{name: "east"}, west: &site{name: "west"}}}
}

func (f *failover) perform(ctx context.Context) (bool, error) {
	began := time.Now()
	err := try.Run(func(*try.Scope) {
		f.start(ctx)
		for _, act := range []func(context.Context){f.copy, f.follow, f.cut, f.fail, f.takeOver, f.comeBack, f.handBack} {
			act(ctx)
		}
	})
	return err == nil && f.summary(ctx, time.Since(began)), err
}

// copy lets west have what east has.
func (f *failover) copy(ctx context.Context) {
	f.screen.heading("West becomes a copy of east")
	for _, s := range []*site{f.east, f.west} {
		try.Do(s.create(ctx, namespaces, "shop", nil))
	}
	try.Do(f.east.create(ctx, configMaps, "settings", object{"data": object{"colour": "green"}}))
	try.Do(f.east.create(ctx, configMaps, "notice", object{"data": object{"text": "closed on Sunday"}}))
	try.Do(f.east.create(ctx, secrets, "database", object{"stringData": object{"password": password}}))
	try.Do(f.east.create(ctx, deployments, "web", web("registry.example.com/web:1.0")))
	f.run(f.east, "run", "east.yaml", f.east.publishes())
	f.run(f.west, "replicate", "west.yaml", f.west.replicates(f.east, "refuse"))
	try.Do(f.equal(ctx))
	f.show(ctx)
}

// follow changes things in east, one after the other.
func (f *failover) follow(ctx context.Context) {
	f.screen.heading("Changes follow")
	for _, do := range f.changes(f.east, "blue", "web:1.1") {
		try.Do(do(ctx))
		answered := time.Now()
		try.Do(f.equal(ctx))
		f.lags = append(f.lags, time.Since(answered))
		f.screen.say("    in west after %s", round(time.Since(answered)))
	}
}

// changes are a change, a creation and a deletion in a cluster.
func (f *failover) changes(s *site, colour, image string) []step {
	order := "order-" + colour
	return []step{
		f.told(s, "patch ConfigMap settings: colour "+colour, func(ctx context.Context) error {
			return s.patch(ctx, configMaps, "settings", object{"data": object{"colour": colour}})
		}),
		f.told(s, "set the image of Deployment web to "+image, func(ctx context.Context) error {
			return s.patch(ctx, deployments, "web", web("registry.example.com/"+image))
		}),
		f.told(s, "create ConfigMap "+order, func(ctx context.Context) error {
			return s.create(ctx, configMaps, order, object{"data": object{"paid": "no"}})
		}),
	}
}

// told is a step that is announced.
func (f *failover) told(s *site, what string, do step) step {
	return func(ctx context.Context) error {
		f.screen.doing("%s: %s", s.name, what)
		return do(ctx)
	}
}

// remove is a step that deletes a ConfigMap.
func (f *failover) remove(s *site, name string) step {
	return f.told(s, "delete ConfigMap "+name, func(ctx context.Context) error {
		return s.delete(ctx, configMaps, name)
	})
}

// cut takes the network away while east changes.
func (f *failover) cut(ctx context.Context) {
	f.screen.heading("The network between them is cut")
	f.network.Sever()
	for _, do := range append(f.changes(f.east, "red", "web:1.2"), f.remove(f.east, "notice")) {
		try.Do(do(ctx))
	}
	f.show(ctx)
	f.screen.doing("the network is back")
	f.network.Open()
	began := time.Now()
	try.Do(f.equal(ctx))
	f.screen.say("    west has all of it after %s, the deletion too", round(time.Since(began)))
}

// fail ends all of east at once.
func (f *failover) fail(ctx context.Context) {
	f.screen.heading("East is lost")
	f.screen.doing("SIGKILL to east's bridge, API server and etcd")
	try.Do(f.east.process.Signal(syscall.SIGKILL))
	<-f.east.process.Ended()
	f.east.process = nil
	try.Do(errors.Join(f.east.cluster.KillAPIServer(), f.east.cluster.KillEtcd()))
	f.command(ctx, 0, "replicate", "status", "--server", f.west.server)
	f.screen.say("  Nothing is pending: west has all that reached the log.")
}

// takeOver makes west the cluster that people change.
func (f *failover) takeOver(ctx context.Context) {
	f.screen.heading("Failover: west stands in")
	f.release(ctx, f.west)
	f.run(f.west, "run", "west-leads.yaml", f.west.publishes())
	for _, do := range append(f.changes(f.west, "gold", "web:2.0"), f.remove(f.west, "order-blue")) {
		try.Do(do(ctx))
	}
}

// release ends a site's replica, and makes what it wrote the site's own.
func (f *failover) release(ctx context.Context, s *site) {
	f.screen.doing("%s: end the replica, and take its label off", s.name)
	try.Do(s.stop())
	n := 0
	for _, o := range try.Get(s.objects(ctx)) {
		if _, ours := o.GetLabels()[replicaLabel]; ours {
			gvr := resourceOf[o.GetKind()]
			try.Do(s.patch(ctx, gvr, o.GetName(), object{"metadata": object{"labels": object{replicaLabel: nil}}}))
			n++
		}
	}
	f.screen.say("    %d objects are %s's own now", n, s.name)
}

// comeBack lets east catch up with west.
func (f *failover) comeBack(ctx context.Context) {
	f.screen.heading("East is back, as old as it was")
	try.Do(f.east.cluster.StartEtcd(ctx))
	try.Do(f.east.cluster.StartAPIServer(ctx))
	f.show(ctx)
	f.run(f.east, "replicate", "east-follows.yaml", f.east.replicates(f.west, "overwrite"))
	try.Do(f.await(ctx, "east to have what west has", func(ctx context.Context) (bool, error) {
		missing, _, err := f.difference(ctx, f.west, f.east)
		return len(missing) == 0 && err == nil, err
	}))
	_, more, err := f.difference(ctx, f.west, f.east)
	try.Do(err)
	f.screen.say("  East still has what was deleted in west meanwhile, because no replica wrote it: %s",
		strings.Join(more, ", "))
	for _, name := range more {
		try.Do(f.remove(f.east, strings.TrimPrefix(name, "ConfigMap "))(ctx))
	}
	f.command(ctx, 0, "replicate", "--config", f.east.config, "--dry-run")
	f.screen.say("  The dry run finds nothing: both are equal.")
}

// handBack makes east the cluster that people change, as at the beginning.
func (f *failover) handBack(ctx context.Context) {
	f.screen.heading("Failback: east leads again")
	f.release(ctx, f.east)
	f.screen.doing("west: end the bridge")
	try.Do(f.west.stop())
	f.run(f.east, "run", "east.yaml", f.east.publishes())
	try.Do(f.published(ctx))
	f.run(f.west, "replicate", "west-again.yaml", f.west.replicates(f.east, "overwrite"))
	for _, do := range append(f.changes(f.east, "white", "web:2.1"), f.remove(f.east, "order-gold")) {
		try.Do(do(ctx))
		try.Do(f.equal(ctx))
	}
	f.show(ctx)
}

// published waits until the log has what east is like now.
func (f *failover) published(ctx context.Context) error {
	return f.await(ctx, "the bridge to have published everything", func(ctx context.Context) (bool, error) {
		cmd := exec.CommandContext(ctx, f.program, "status", "--server", f.east.server)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return false, fmt.Errorf("%w: %s", err, out)
		}
		return true, nil
	})
}

// command runs the program, and shows what it prints.
func (f *failover) command(ctx context.Context, code int, args ...string) {
	shown := strings.ReplaceAll(strings.Join(args, " "), f.dir+"/", "")
	f.screen.say("  %s", f.screen.bold("kube-eventbridge "+shown))
	out, err := exec.CommandContext(ctx, f.program, args...).CombinedOutput()
	for line := range bytes.Lines(out) {
		f.screen.say("    %s %s", f.screen.dim("│"), bytes.TrimRight(line, "\n"))
	}
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended) && ended.ExitCode() == code, err == nil && code == 0:
	default:
		try.Do(fmt.Errorf("%s: exit code %d was expected: %w", shown, code, err))
	}
}
