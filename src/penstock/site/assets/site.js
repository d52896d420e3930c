// The list at the side, search, tabs and the filter of the overview's lists. Texts only ever become text nodes.
(function () {
  "use strict";
  const { kinds, nodes } = window.penstock;
  const root = document.documentElement.dataset.root;
  const here = Number(document.querySelector("[data-element]")?.dataset.element ?? -1);
  const TITLES = { source: "Sources", model: "Models", transform: "Transforms", sink: "Sinks", exposure: "Exposures" };
  const MOST_RESULTS = 30;

  function make(name, className, text) {
    const element = document.createElement(name);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  }

  // ---- the list at the side

  function fillSide() {
    const side = document.getElementById("side");
    const overview = make("a", "home", "Overview");
    overview.href = root + "index.html";
    if (here < 0) overview.setAttribute("aria-current", "page");
    side.append(overview);
    for (const kind of kinds) {
      const members = nodes.map((node, number) => [node, number]).filter(([node]) => node.kind === kind);
      if (!members.length) continue;
      const group = make("details");
      group.open = members.length <= 60 || nodes[here]?.kind === kind;
      const summary = make("summary", "", TITLES[kind]);
      summary.append(make("small", "", String(members.length)));
      group.append(summary);
      for (const [node, number] of members) {
        const link = make("a", "", "");
        link.append(make("i", "dot " + kind), make("span", "", node.name));
        link.href = root + node.page;
        link.title = node.name;
        if (number === here) link.setAttribute("aria-current", "page");
        group.append(link);
      }
      side.append(group);
    }
    const current = side.querySelector("[aria-current]");
    if (current) side.scrollTop = Math.max(0, current.offsetTop - side.clientHeight / 2);

    const menu = document.getElementById("menu");
    function toggle(open) {
      document.body.classList.toggle("side-open", open);
      menu.setAttribute("aria-expanded", String(open));
    }
    menu.addEventListener("click", () => toggle(!document.body.classList.contains("side-open")));
    document.getElementById("main").addEventListener("click", () => toggle(false));
    document.addEventListener("keydown", (event) => event.key === "Escape" && toggle(false));
  }

  // ---- search

  // What is looked at, with the weight of a hit and the words that explain it.
  let entries = null;
  function searchEntries() {
    entries ??= nodes.map((node, number) => ({
      number,
      name: node.name.toLowerCase(),
      fields: [
        ...node.columns.map(([name]) => [name.toLowerCase(), 20, "column " + name]),
        ...node.tags.map((tag) => [tag.toLowerCase(), 16, "tag " + tag]),
        [node.owner.toLowerCase(), 12, "owner " + node.owner],
        [node.group.toLowerCase(), 10, "group " + node.group],
        [node.topic.toLowerCase(), 10, "topic " + node.topic],
        [node.label.toLowerCase(), 6, node.label],
        [node.description.toLowerCase(), 4, "in the description"],
      ],
    }));
    return entries;
  }

  function scoreName(name, word) {
    if (name === word) return 100;
    if (name.startsWith(word)) return 70;
    const at = name.indexOf(word);
    if (at < 0) return 0;
    return /[\W_]/.test(name[at - 1]) ? 55 : 40;
  }

  // Every word must be found somewhere in an element; elements with the better hits come first.
  function search(query) {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return [];
    const found = [];
    for (const entry of searchEntries()) {
      let total = 0;
      let why = "";
      for (const word of words) {
        let best = scoreName(entry.name, word);
        for (const [text, weight, reason] of entry.fields) {
          const score = text === word ? weight + 10 : text.startsWith(word) ? weight + 5 : text.includes(word) ? weight : 0;
          if (score > best) {
            best = score;
            why = reason;
          }
        }
        if (!best) {
          total = 0;
          break;
        }
        total += best;
      }
      if (total) found.push({ number: entry.number, total, why });
    }
    found.sort((a, b) => b.total - a.total || a.number - b.number);
    return found;
  }

  // An input with a list of elements under it: arrows move, Enter chooses, Escape closes.
  function combobox(input, list, choose) {
    let active = -1;
    const options = () => [...list.querySelectorAll("[role=option]")];

    function open(isOpen) {
      list.hidden = !isOpen;
      input.setAttribute("aria-expanded", String(isOpen));
      if (!isOpen) input.removeAttribute("aria-activedescendant");
    }

    function activate(index) {
      const all = options();
      if (!all.length) return;
      active = (index + all.length) % all.length;
      all.forEach((option, position) => option.setAttribute("aria-selected", String(position === active)));
      input.setAttribute("aria-activedescendant", all[active].id);
      all[active].scrollIntoView({ block: "nearest" });
    }

    function show() {
      const found = search(input.value);
      list.replaceChildren();
      active = -1;
      found.slice(0, MOST_RESULTS).forEach(({ number, why }, position) => {
        const node = nodes[number];
        const option = make("li");
        option.id = list.id + "-" + position;
        option.setAttribute("role", "option");
        option.dataset.node = number;
        option.append(make("i", "dot " + node.kind), make("b", "", node.name), make("small", "", why || node.label));
        list.append(option);
      });
      if (found.length > MOST_RESULTS) list.append(make("li", "more", `and ${found.length - MOST_RESULTS} more`));
      if (!found.length && input.value.trim()) list.append(make("li", "more", "Nothing found."));
      open(list.childElementCount > 0);
      activate(0);
    }

    function take(option) {
      open(false);
      choose(Number(option.dataset.node), input);
    }

    input.addEventListener("input", show);
    input.addEventListener("focus", () => input.value.trim() && show());
    input.addEventListener("blur", () => open(false));
    input.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown") list.hidden ? show() : activate(active + 1);
      else if (event.key === "ArrowUp") activate(active - 1);
      else if (event.key === "Enter" && !list.hidden && options()[active]) take(options()[active]);
      else if (event.key === "Escape" && !list.hidden) open(false);
      else return;
      event.preventDefault();
    });
    // Before the input loses the focus and the list is closed.
    list.addEventListener("pointerdown", (event) => event.preventDefault());
    list.addEventListener("click", (event) => {
      const option = event.target.closest("[role=option]");
      if (option) take(option);
    });
  }

  function startSearch() {
    const input = document.getElementById("search");
    combobox(input, document.getElementById("search-results"), (number) => {
      location.href = root + nodes[number].page;
    });
    document.addEventListener("keydown", (event) => {
      const typing = event.target.closest?.("input, select, textarea");
      if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      input.focus();
      input.select();
    });
  }

  // ---- tabs, and the lists of the overview

  function startTabs() {
    for (const list of document.querySelectorAll("[role=tablist]")) {
      const tabs = [...list.querySelectorAll("[role=tab]")];
      const select = (chosen) => {
        for (const tab of tabs) {
          tab.setAttribute("aria-selected", String(tab === chosen));
          tab.tabIndex = tab === chosen ? 0 : -1;
          document.getElementById(tab.getAttribute("aria-controls")).hidden = tab !== chosen;
        }
      };
      list.addEventListener("click", (event) => event.target.closest("[role=tab]") && select(event.target));
      list.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        const next = tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length];
        select(next);
        next.focus();
      });
    }
  }

  function startListFilter() {
    const input = document.getElementById("list-filter");
    const numberOf = new Map(nodes.map((node, number) => [node.page, number]));
    const rows = [...document.querySelectorAll(".list tbody tr")].map((row) => [
      row,
      numberOf.get(row.querySelector("a").getAttribute("href")),
    ]);
    input?.addEventListener("input", () => {
      const found = input.value.trim() ? new Set(search(input.value).map(({ number }) => number)) : null;
      for (const [row, number] of rows) row.hidden = found !== null && !found.has(number);
      for (const list of document.querySelectorAll(".list")) list.hidden = !list.querySelector("tbody tr:not([hidden])");
      document.getElementById("list-empty").hidden = !document.querySelector(".list:not([hidden])") ? false : true;
    });
  }

  fillSide();
  startSearch();
  startTabs();
  startListFilter();
  window.penstock.combobox = combobox;
  window.penstock.make = make;
})();
