// Go's own HTTP client on the agent's Unix socket. test_go.py starts the agent: one component with a ttl check "heart", an
// endpoint "rest" and a dynamic endpoint "port". The tests run in this order.
package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const patience = 60 * time.Second

var component = os.Getenv("BERTH_COMPONENT")
var connections int32

var client = &http.Client{
	Timeout: patience,
	Transport: &http.Transport{
		MaxIdleConnsPerHost: 16,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			atomic.AddInt32(&connections, 1)
			return (&net.Dialer{}).DialContext(ctx, "unix", os.Getenv("BERTH_SOCKET"))
		}}}

type answer struct {
	*http.Response
	body []byte
}

func ask(t *testing.T, method, target, body string, headers ...string) answer {
	t.Helper()
	request, err := http.NewRequest(method, "http://berth"+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response, text}
}

func expect(t *testing.T, got answer, status int) answer {
	t.Helper()
	if got.StatusCode != status {
		t.Fatalf("status %d, not %d: %s", got.StatusCode, status, got.body)
	}
	return got
}

func decode(t *testing.T, from []byte, to interface{}) {
	t.Helper()
	if err := json.Unmarshal(from, to); err != nil {
		t.Fatalf("%v: %s", err, from)
	}
}

func TestProblemsAreDocuments(t *testing.T) {
	for target, want := range map[string]struct {
		status int
		title  string
	}{
		"/v1/resolve/none":  {404, "PathNotFound"},
		"/v1/resolve/users": {404, "PathNotFound"},
		"/v1/resolve/A":     {400, "InvalidPathname"},
		"/v1/nothing":       {404, "Not Found"},
	} {
		got := expect(t, ask(t, "GET", target, ""), want.status)
		var problem struct {
			Title  string
			Status int
			Detail string
		}
		decode(t, got.body, &problem)
		kind := got.Header.Get("Content-Type")
		if kind != "application/problem+json" || problem.Title != want.title || problem.Status != want.status || problem.Detail == "" {
			t.Errorf("%s: %s %+v", target, kind, problem)
		}
	}
	got := expect(t, ask(t, "DELETE", "/v1/agent", ""), 405)
	if !strings.Contains(got.Header.Get("Allow"), "GET") {
		t.Error("Allow is ", got.Header.Get("Allow"))
	}
}

func TestAReportRegistersTheComponent(t *testing.T) {
	expect(t, ask(t, "GET", "/ready", ""), 503)
	// What does not exist yet can be waited for.
	tag := ask(t, "GET", "/v1/resolve"+component, "").Header.Get("ETag")
	done := make(chan answer)
	go func() {
		done <- ask(t, "GET", "/v1/resolve"+component, "", "If-None-Match", tag, "Prefer", "wait=50")
	}()
	expect(t, ask(t, "PUT", "/v1/agent/checks/heart", `{"status": "passing", "output": "from Go"}`), 204)
	got := expect(t, <-done, 200)
	var record struct {
		Type     string
		External []struct{ Addresses []map[string]string }
	}
	decode(t, got.body, &record)
	if record.Type != "JSONServiceRecord" || record.External[0].Addresses[0]["uri"] != "http://127.0.0.1:8080/" {
		t.Errorf("%+v", record)
	}
	expect(t, ask(t, "PUT", "/v1/agent/checks/none", `{"status": "passing"}`), 404)
	expect(t, ask(t, "PUT", "/v1/agent/checks/heart", `{"status": "well"}`), 400)
}

func TestAnAnswerSaysHowOldItIsAndNeedsNoSecondBody(t *testing.T) {
	got := expect(t, ask(t, "GET", "/v1/resolve"+component, ""), 200)
	if got.Header.Get("Age") != "0" || got.Header.Get("X-Cache") == "" || got.Header.Get("ETag") == "" {
		t.Errorf("%v", got.Header)
	}
	same := expect(t, ask(t, "GET", "/v1/resolve"+component, "", "If-None-Match", got.Header.Get("ETag")), 304)
	if len(same.body) != 0 {
		t.Errorf("%s", same.body)
	}
	head := expect(t, ask(t, "HEAD", "/v1/resolve"+component, ""), 200)
	if head.ContentLength != int64(len(got.body)) || len(head.body) != 0 {
		t.Error("HEAD: ", head.ContentLength, len(got.body))
	}
	fresh := expect(t, ask(t, "GET", "/v1/resolve"+component, "", "Cache-Control", "no-cache"), 200)
	if fresh.Header.Get("X-Cache") != "MISS" {
		t.Errorf("%v", fresh.Header)
	}
}

func TestAStreamTellsOfASuppliedEndpoint(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	request, _ := http.NewRequestWithContext(ctx, "GET", "http://berth/v1/watch"+component, nil)
	request.Header.Set("Accept", "application/x-ndjson")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	next := func() (event struct {
		Type     string
		Sequence int
		Record   struct {
			External []struct{ Addresses []map[string]string }
		}
		Snapshot map[string]json.RawMessage
	}) {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		decode(t, line, &event)
		return
	}
	first := next()
	if first.Type != "SUBSCRIBED" || first.Sequence != 1 || first.Snapshot[component] == nil {
		t.Fatalf("%+v", first)
	}
	expect(t, ask(t, "PUT", "/v1/agent/endpoints/port", `{"addresses": ["go.example.org:7", "[::1]:8"]}`), 204)
	for event := next(); len(event.Record.External) != 2; event = next() {
		if event.Type != "UPDATED" && event.Type != "HEARTBEAT" {
			t.Fatalf("%+v", event)
		}
	}
	plain := expect(t, ask(t, "GET", "/v1/endpoints"+path.Dir(component)+"?protocol=TCP", "", "Accept", "text/plain"), 200)
	if string(plain.body) != "go.example.org:7\n[::1]:8\n" {
		t.Errorf("%s", plain.body)
	}
	expect(t, ask(t, "DELETE", "/v1/agent/endpoints/port", ""), 204)
	// The tests that follow compare records: this one must have settled.
	for event := next(); event.Type != "UPDATED" || len(event.Record.External) != 1; event = next() {
	}
}

func TestManyGoroutinesShareFewConnections(t *testing.T) {
	before := atomic.LoadInt32(&connections)
	want := ask(t, "GET", "/v1/resolve"+component, "").body
	var group sync.WaitGroup
	for i := 0; i < 8; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for j := 0; j < 200; j++ {
				got := ask(t, "GET", "/v1/resolve"+component, "")
				if got.StatusCode != 200 || !bytes.Equal(got.body, want) {
					t.Errorf("%d %s", got.StatusCode, got.body)
					return
				}
			}
		}()
	}
	group.Wait()
	if made := atomic.LoadInt32(&connections) - before; made > 16 {
		t.Error(made, " connections for 1600 requests")
	}
}

func TestADrainTakesTheComponentOut(t *testing.T) {
	got := expect(t, ask(t, "GET", "/v1/resolve"+component, ""), 200)
	expect(t, ask(t, "POST", "/v1/agent/drain", `{"reason": "from Go", "for": "1h"}`), 204)
	expect(t, ask(t, "GET", "/v1/resolve"+component, "", "If-None-Match", got.Header.Get("ETag"), "Prefer", "wait=50"), 404)
	var agent struct {
		Drain struct {
			Active bool
			Reason string
		}
	}
	decode(t, expect(t, ask(t, "GET", "/v1/agent", ""), 200).body, &agent)
	if !agent.Drain.Active || agent.Drain.Reason != "from Go" {
		t.Errorf("%+v", agent)
	}
	expect(t, ask(t, "DELETE", "/v1/agent/drain", ""), 204)
}
