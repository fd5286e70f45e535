"use strict";
// Names and errors come from a cluster: they get into the page as text only, by textContent.
(() => {
  const every = 2000, patience = 5000, manyStreams = 10;
  const signs = { live: "✓", watching: "✓", failing: "✗", waiting: "✗", lost: "✗", starting: "…", listing: "…", standby: "◦", degraded: "!", running: "✓", learning: "…", held: "✗", notRunning: "✗" };
  const columns = [
    { key: "name", title: "Stream", of: (s) => s.name },
    { key: "state", title: "State", of: (s) => s.state },
    { key: "objects", title: "Objects", number: true, of: (s) => s.objects },
    { key: "rate", title: "Events/s", number: true, of: (s) => s.eventsPerSecond },
    { key: "unsettled", title: "Unsettled for", number: true, of: (s) => s.oldestUnsettledSeconds },
    { key: "position", title: "Position", of: (s) => Number(s.position) || s.position },
    { key: "gap", title: "Last gap", of: (s) => (s.lastGap ? s.lastGap.at : "") },
    { key: "error", title: "Last error", of: (s) => (s.lastError ? s.lastError.at : "") },
  ];
  const replicaColumns = ["Replica", "State", "Behind", "Objects", "Writes", "Waiting"];
  const replicaRows = new Map(); // by name
  let report = null, seen = 0, sort = { key: "", descending: false };
  const tables = new Map(); // by pipeline
  const at = (id) => document.getElementById(id);
  const put = (node, text) => { if (node.textContent !== text) node.textContent = text; };
  const make = (tag, className, text) => {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text) node.textContent = text;
    return node;
  };

  const age = (seconds) => {
    const s = Math.max(0, Math.floor(seconds));
    if (s < 120) return s + " s";
    if (s < 7200) return Math.floor(s / 60) + " min";
    if (s < 172800) return Math.floor(s / 3600) + " h";
    return Math.floor(s / 86400) + " d";
  };
  // Ages are of the bridge's clock, not of this one.
  const since = (time) => (Date.parse(report.time) - Date.parse(time)) / 1000;
  const ago = (time) => age(since(time)) + " ago";
  const size = (n) => {
    const units = ["B", "KiB", "MiB", "GiB"];
    let i = 0;
    for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
    return (i && n < 10 ? n.toFixed(1) : Math.round(n)) + " " + units[i];
  };
  const behind = (s) => (s === 0 ? "0 s" : s < 1 ? "under 1 s" : age(s));
  const state = (node, word) => {
    node.dataset.state = word;
    put(node, (signs[word] || "") + " " + word);
  };

  function verdict(word, summary) {
    at("verdict").dataset.state = word;
    put(at("mark"), signs[word] || "");
    put(at("summary"), summary);
    document.title = (word === "live" ? "" : signs[word] + " ") + summary + " – kube-eventbridge";
  }

  function about() {
    const parts = ["kube-eventbridge " + report.version, "up " + age(since(report.started))];
    if (report.cluster) parts.push("cluster " + report.cluster);
    if (report.apiServer) parts.push(report.apiServer);
    const c = report.configuration, e = report.leaderElection;
    if (c.file) parts.push("configuration " + c.file + (c.loadedAt ? ", read " + ago(c.loadedAt) : ""));
    if (e && e.leads) parts.push("leads as " + e.identity + ", term " + e.term);
    if (e && !e.leads) parts.push("stands by, " + (e.leader || "no process") + " leads");
    put(at("about"), parts.join(" · "));
  }

  function problems() {
    const list = at("problem-list"), all = report.problems;
    at("problems").hidden = all.length === 0;
    while (list.children.length > all.length) list.lastChild.remove();
    all.forEach((p, i) => {
      let item = list.children[i];
      if (!item) {
        item = make("li", "problem");
        item.append(make("p", "what"), make("p", "text"), make("p", "advice"));
        list.append(item);
      }
      item.dataset.severity = p.severity;
      const streams = p.streams || [], shown = streams.slice(0, 5).join(", ") + (streams.length > 5 ? " and " + (streams.length - 5) + " more" : "");
      const whose = [p.title, p.pipeline || p.replica, shown].filter(Boolean).join(" · ");
      put(item.children[0], whose + (p.since ? " · for " + age(since(p.since)) : ""));
      put(item.children[1], p.text);
      put(item.children[2], p.advice.replaceAll("`", ""));
    });
  }

  function section(name) {
    const node = make("section"), title = make("h2"), facts = make("dl", "facts"), table = make("table"), head = make("tr"), body = make("tbody");
    table.setAttribute("role", "table");
    table.setAttribute("aria-label", "Streams of " + name);
    for (const c of columns) {
      const cell = make("th", c.number ? "number" : ""), button = make("button", "", c.title);
      cell.scope = "col";
      button.type = "button";
      button.addEventListener("click", () => {
        sort = { key: c.key, descending: sort.key === c.key && !sort.descending };
        pipelines();
      });
      cell.dataset.key = c.key;
      cell.append(button);
      head.append(cell);
    }
    const thead = make("thead");
    thead.append(head);
    table.append(thead, body);
    node.append(title, facts, table);
    const parts = { node, title, facts, table, head, body, rows: new Map() };
    tables.set(name, parts);
    return parts;
  }

  function fact(list, i, name, value) {
    let item = list.children[i];
    if (!item) {
      item = make("div");
      item.append(make("dt"), make("dd"));
      list.append(item);
    }
    put(item.children[0], name);
    put(item.children[1], value);
  }

  function facts(list, p) {
    const c = p.checkpoint, b = p.broker;
    const rows = [
      ["to", p.sink],
      ["broker", b.ok ? "ok" : b.error ? "✗ " + b.error : "starting"],
      ["checkpoint", c.error ? "✗ " + c.error : c.ageSeconds === undefined ? "not read yet" : "saved " + age(c.ageSeconds) + " ago"],
      ["buffer", size(p.buffer.bytes) + " of " + size(p.buffer.limitBytes) + ", " + p.buffer.events + " events"],
      ["events/s", p.eventsPerSecond.toFixed(1)],
      ["published", String(p.publishedTotal)],
      ["objects", String(p.objects)],
      ["unsettled for", behind(p.oldestUnsettledSeconds)],
    ];
    if (p.lastLoss) rows.push(["log lost events", ago(p.lastLoss.at)]);
    if (p.lastWriter) rows.push(["another process published", ago(p.lastWriter.at)]);
    for (const r of p.resyncs || []) rows.push(["resync", r.stream + ": " + r.listed + " of " + r.objects + ", " + r.published + " published again"]);
    while (list.children.length > rows.length) list.lastChild.remove();
    rows.forEach(([name, value], i) => fact(list, i, name, value));
  }

  function row() {
    const node = make("tr");
    node.setAttribute("role", "row");
    for (const c of columns) {
      const cell = make(c.key === "name" ? "th" : "td", c.number ? "number" : c.key === "state" ? "state" : c.key);
      if (c.key === "name") cell.scope = "row";
      cell.dataset.label = c.title;
      cell.setAttribute("role", c.key === "name" ? "rowheader" : "cell");
      cell.append(make("span"));
      if (c.key === "gap" || c.key === "error") cell.append(make("span", "note"));
      node.append(cell);
    }
    return node;
  }

  function fill(node, s) {
    const cell = (i, text, note) => {
      put(node.children[i].children[0], text);
      if (node.children[i].children[1]) put(node.children[i].children[1], note || "");
    };
    const selectors = [s.labelSelector, s.fieldSelector].filter(Boolean).join(", ");
    cell(0, s.name + (selectors ? " (" + selectors + ")" : ""));
    node.children[1].dataset.state = s.state;
    cell(1, (signs[s.state] || "") + " " + s.state);
    cell(2, String(s.objects));
    cell(3, s.eventsPerSecond.toFixed(1));
    cell(4, behind(s.oldestUnsettledSeconds));
    cell(5, s.position || "–");
    const g = s.lastGap, e = s.lastError, r = s.lastRejection;
    cell(6, g ? ago(g.at) : "–", g ? (g.from === g.to ? "at " + g.to : g.from + " to " + g.to) + ": " + g.reason : "");
    const over = e && (e.clearedAt ? "over " + ago(e.clearedAt) : "for " + age(since(e.at)));
    const rejected = r ? r.total + " rejected, " + ago(r.at) : "";
    cell(7, [over, rejected].filter(Boolean).join("; ") || "–", e ? e.text : r ? r.text : "");
  }

  function ordered(streams) {
    const column = columns.find((c) => c.key === sort.key);
    if (!column) return streams;
    const sign = sort.descending ? -1 : 1;
    return [...streams].sort((a, b) => {
      const x = column.of(a), y = column.of(b);
      return sign * (x < y ? -1 : x > y ? 1 : 0);
    });
  }

  function pipelines() {
    const text = at("filter-text").value.trim().toLowerCase(), names = new Set();
    let shown = 0, all = 0;
    for (const p of report.pipelines) {
      names.add(p.name);
      const t = tables.get(p.name) || section(p.name);
      if (!t.node.parentNode) at("pipelines").append(t.node);
      put(t.title, p.name + " ");
      let word = t.title.querySelector(".state");
      if (!word) t.title.append((word = make("span", "state")));
      state(word, p.state);
      facts(t.facts, p);
      for (const cell of t.head.children) {
        if (cell.dataset.key === sort.key) cell.setAttribute("aria-sort", sort.descending ? "descending" : "ascending");
        else cell.removeAttribute("aria-sort");
      }
      const left = new Set(t.rows.keys());
      let after = null;
      for (const s of ordered(p.streams)) {
        left.delete(s.name);
        let node = t.rows.get(s.name);
        if (!node) t.rows.set(s.name, (node = row()));
        fill(node, s);
        node.hidden = text !== "" && !(s.name + " " + s.state).toLowerCase().includes(text);
        all++;
        if (!node.hidden) shown++;
        const place = after ? after.nextSibling : t.body.firstChild;
        if (place !== node) t.body.insertBefore(node, place);
        after = node;
      }
      for (const name of left) {
        t.rows.get(name).remove();
        t.rows.delete(name);
      }
      t.table.hidden = p.streams.length === 0;
    }
    for (const [name, t] of tables) {
      if (names.has(name)) continue;
      t.node.remove();
      tables.delete(name);
    }
    at("filter").hidden = all <= manyStreams;
    put(at("filter-count"), text ? shown + " of " + all : "");
  }

  function replicaRow(name) {
    const node = make("tr");
    node.setAttribute("role", "row");
    replicaColumns.forEach((title, i) => {
      const cell = make(i ? "td" : "th", i === 2 || i === 3 ? "number" : "");
      if (!i) cell.scope = "row";
      cell.dataset.label = title;
      cell.setAttribute("role", i ? "cell" : "rowheader");
      cell.append(make("span", i === 1 ? "state" : ""), make("span", "note"));
      node.append(cell);
    });
    const button = make("button", "choice", "Resume…");
    button.type = "button";
    button.addEventListener("click", () => askToResume(name));
    node.children[1].append(button);
    return node;
  }

  const some = (p) => p.first.join(", ") + (p.objects > p.first.length ? " and " + (p.objects - p.first.length) + " more" : "");

  function fillReplica(node, r) {
    const cell = (i, text, note) => {
      put(node.children[i].children[0], text);
      put(node.children[i].children[1], note || "");
    };
    const parked = r.parked || [];
    cell(0, r.name, r.cluster + ", pipeline " + r.pipeline + " → " + r.into);
    node.children[1].children[0].dataset.state = r.state;
    cell(1, signs[r.state] + " " + (r.state === "notRunning" ? "not running" : r.state), r.reason);
    node.children[1].children[2].hidden = r.state !== "held";
    cell(2, behind(r.lagSeconds), r.pendingObjects ? r.pendingObjects + " pending" : "");
    cell(3, String(r.objects));
    cell(4, (r.writes || []).map((w) => w.result + " " + w.total).join(", ") || "–");
    cell(5, parked.map((p) => p.reason + " " + p.objects).join(", ") || "–",
      parked.filter((p) => !p.intended).map((p) => p.reason + ": " + some(p)).join("\n"));
  }

  function replicas() {
    const all = report.replicas || [], list = at("replica-list"), left = new Set(replicaRows.keys());
    at("replicas").hidden = all.length === 0;
    all.forEach((r, i) => {
      left.delete(r.name);
      let node = replicaRows.get(r.name);
      if (!node) replicaRows.set(r.name, (node = replicaRow(r.name)));
      fillReplica(node, r);
      if (list.children[i] !== node) list.insertBefore(node, list.children[i] || null);
    });
    for (const name of left) {
      replicaRows.get(name).remove();
      replicaRows.delete(name);
    }
  }

  let asked = "";
  function askToResume(name) {
    const r = (report.replicas || []).find((r) => r.name === name);
    if (!r) return;
    const held = (r.parked || []).find((p) => p.reason === "held");
    const then = [];
    if (r.heldEpoch) then.push("The versions of " + r.cluster + " begin again: it was restored or rebuilt. What the log has now replaces what is in " + r.into + ", also where that is newer.");
    if (held) then.push("Objects that are deleted from " + r.into + ": " + held.objects + ". " + some(held) + ".");
    asked = name;
    put(at("question-title"), "Resume " + name + "?");
    put(at("question-text"), then.join(" "));
    at("question").showModal();
  }

  async function resume(name) {
    at("question").close();
    let refused = "";
    try {
      const answer = await fetch("replicas/resume?replica=" + encodeURIComponent(name), { method: "POST", signal: AbortSignal.timeout(patience) });
      if (!answer.ok) {
        const text = await answer.text();
        try { refused = JSON.parse(text).error; } catch { refused = text; }
      }
    } catch (e) {
      refused = String(e);
    }
    at("refused").hidden = !refused;
    put(at("refused"), refused ? name + " is not resumed: " + refused : "");
    run();
  }

  function show() {
    at("lost").hidden = true;
    verdict(report.state, report.summary);
    about();
    problems();
    pipelines();
    replicas();
  }

  function lost() {
    verdict("lost", "Connection to the bridge lost");
    at("lost").hidden = false;
    put(at("lost"), seen ? "Last seen " + age((Date.now() - seen) / 1000) + " ago; what is below is from then." : "The bridge has not answered yet.");
  }

  async function ask() {
    try {
      const answer = await fetch("api/status", { cache: "no-store", signal: AbortSignal.timeout(patience) });
      if (!answer.ok) throw new Error(String(answer.status));
      report = await answer.json();
      seen = Date.now();
      show();
    } catch {
      lost();
    }
  }

  let timer = 0;
  async function run() {
    clearTimeout(timer);
    if (!document.hidden) await ask();
    clearTimeout(timer);
    timer = setTimeout(run, every);
  }
  document.addEventListener("visibilitychange", () => { if (!document.hidden) run(); });
  replicaColumns.forEach((title, i) => {
    const cell = make("th", i === 2 || i === 3 ? "number" : "", title);
    cell.scope = "col";
    at("replica-head").append(cell);
  });
  at("no").addEventListener("click", () => at("question").close());
  at("yes").addEventListener("click", () => resume(asked));
  at("filter-text").addEventListener("input", () => { if (report) pipelines(); });
  run();
})();
