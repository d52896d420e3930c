// The graph of the overview: filters, finding a node, following a column.
(function () {
  "use strict";
  const { nodes, combobox, make, startGraph } = window.penstock;

  function startFilters(section, graph) {
    const kinds = new Map([...section.querySelectorAll("[data-kind]")].map((chip) => [chip.dataset.kind, chip]));
    const tags = document.getElementById("tag-filter");
    function filter() {
      const shown = (number) => {
        const { kind, tags: own } = nodes[number];
        return kinds.get(kind).getAttribute("aria-pressed") === "true" && (!tags?.value || own.includes(tags.value));
      };
      for (const [number, box] of graph.boxes) {
        box.classList.toggle("out", !shown(number));
        shown(number) ? box.removeAttribute("tabindex") : box.setAttribute("tabindex", "-1");
      }
      for (const { line, from, to } of graph.lines) line.classList.toggle("out", !shown(from) || !shown(to));
    }
    for (const chip of kinds.values()) {
      chip.addEventListener("click", () => {
        chip.setAttribute("aria-pressed", String(chip.getAttribute("aria-pressed") !== "true"));
        filter();
      });
    }
    tags?.addEventListener("change", filter);
    filter(); // The browser may have kept a choice from before a reload.
  }

  // Columns that a column is made of, or that are made of it: steps from it (negative: before), and the pairs passed.
  function trace(number, column) {
    const key = (node, name) => node + "\n" + name;
    const after = new Map();
    const before = new Map();
    nodes.forEach((node, at) => {
      for (const [name, origins] of node.columns) {
        before.set(key(at, name), origins);
        for (const [from, origin] of origins) {
          if (!after.has(key(from, origin))) after.set(key(from, origin), []);
          after.get(key(from, origin)).push([at, name]);
        }
      }
    });
    const steps = new Map([[key(number, column), { node: number, name: column, step: 0 }]]);
    const pairs = new Set();
    for (const [next, sign] of [[before, -1], [after, 1]]) {
      const queue = [{ node: number, name: column, step: 0 }];
      for (const here of queue) {
        for (const [node, name] of next.get(key(here.node, here.name)) ?? []) {
          pairs.add(sign < 0 ? node + ">" + here.node : here.node + ">" + node);
          if (steps.has(key(node, name))) continue;
          const entry = { node, name, step: here.step + sign };
          steps.set(key(node, name), entry);
          queue.push(entry);
        }
      }
    }
    return [[...steps.values()].sort((a, b) => a.step - b.step || a.node - b.node), pairs];
  }

  function startTrace(graph) {
    const elements = document.getElementById("trace-node");
    const columns = document.getElementById("trace-column");
    const clear = document.getElementById("trace-clear");
    const panel = document.getElementById("trace");
    if (!elements) return null;
    const labels = new Map([...graph.boxes].map(([number, box]) => [number, box.querySelector(".label")]));
    const written = new Map([...labels].map(([number, label]) => [number, label.textContent]));

    nodes.forEach((node, number) => {
      if (node.columns.length) elements.append(new Option(node.name, number));
    });

    function offer(number) {
      columns.replaceChildren(new Option(number === "" ? "–" : "Choose a column …", ""));
      columns.disabled = number === "";
      if (number !== "") nodes[number].columns.forEach(([name]) => columns.append(new Option(name, name)));
    }

    function reset() {
      for (const [number, label] of labels) label.textContent = written.get(number);
      graph.pin(null);
      panel.hidden = clear.hidden = true;
    }

    function follow(number, column) {
      reset();
      const [passed, pairs] = trace(number, column);
      graph.pin(new Set(passed.map(({ node }) => node)), ({ from, to }) => pairs.has(from + ">" + to));
      const names = new Map();
      for (const { node, name } of passed) names.set(node, [...(names.get(node) ?? []), name]);
      for (const [node, own] of names) {
        const text = own.join(", ");
        labels.get(node).textContent = "▸ " + (text.length > 24 ? text.slice(0, 23) + "…" : text);
      }
      panel.replaceChildren();
      let last = null;
      let group = null;
      for (const { node, name, step } of passed) {
        if (step !== last) {
          if (group) panel.append(make("span", "arrow", "→"));
          group = make("span", "step");
          panel.append(group);
          last = step;
        }
        const link = make("a", step === 0 ? "chosen" : "");
        link.href = nodes[node].page + "#columns";
        link.append(make("i", "dot " + nodes[node].kind), nodes[node].name, make("span", "", "." + name));
        group.append(link);
      }
      if (passed.length === 1) panel.append(make("span", "quiet", "Nothing is known of where it comes from or goes to."));
      panel.hidden = clear.hidden = false;
    }

    elements.addEventListener("change", () => {
      offer(elements.value);
      reset();
    });
    columns.addEventListener("change", () => (columns.value ? follow(Number(elements.value), columns.value) : reset()));
    clear.addEventListener("click", () => {
      elements.value = "";
      offer("");
      reset();
    });
    elements.value = "";
    return (number, column) => {
      elements.value = String(number);
      offer(String(number));
      columns.value = column;
      if (columns.value === column) follow(number, column);
    };
  }

  // `index.html#node=model/orders.html&column=amount` shows a node, or follows one of its columns.
  function showHash(section, graph, follow) {
    const wanted = new URLSearchParams(location.hash.slice(1));
    const number = nodes.findIndex((node) => node.page === wanted.get("node"));
    if (number < 0) return;
    section.scrollIntoView({ block: "start" });
    if (wanted.has("column") && follow) follow(number, wanted.get("column"));
    else {
      graph.jump(number);
      graph.pin(...graph.reach(number));
    }
  }

  const section = document.querySelector("[data-graph=overview]");
  const graph = startGraph(section);
  const follow = startTrace(graph);
  const find = document.getElementById("find");
  startFilters(section, graph);
  combobox(find, document.getElementById("find-results"), (number) => {
    graph.jump(number);
    graph.pin(...graph.reach(number));
  });
  find.addEventListener("input", () => find.value || graph.pin(null));
  window.addEventListener("hashchange", () => showHash(section, graph, follow));
  showHash(section, graph, follow);
})();
