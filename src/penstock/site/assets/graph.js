// Behaviour of one lineage graph, which is drawn as SVG when the site is written: pan, zoom, light up.
(function () {
  "use strict";
  const CLOSEST = 2.5;
  const READABLE = 0.65;
  // Names are at least so large on the screen, and at most as high as their box lets them be.
  const SMALLEST = 11;
  const TALLEST = 36;
  const PER_LETTER = 0.72;

  function startGraph(section) {
    const svg = section.querySelector("svg.view");
    const width = Number(svg.dataset.width);
    const height = Number(svg.dataset.height);
    const boxes = new Map([...svg.querySelectorAll(".node")].map((box) => [Number(box.dataset.node), box]));
    const lines = [...svg.querySelectorAll(".line")].map((line) => ({
      line,
      from: Number(line.dataset.from),
      to: Number(line.dataset.to),
    }));
    const beside = { from: new Map(), to: new Map() };
    for (const entry of lines) {
      for (const side of ["from", "to"]) {
        if (!beside[side].has(entry[side])) beside[side].set(entry[side], []);
        beside[side].get(entry[side]).push(entry);
      }
    }
    const names = [...boxes.values()].map((box) => {
      const element = box.querySelector(".name");
      const frame = box.querySelector(".box");
      return {
        element,
        drawn: element.textContent,
        whole: box.querySelector("title").textContent.replace(/ \([^()]*\)$/, ""),
        y: element.getAttribute("y"),
        width: Number(frame.getAttribute("width")),
        height: Number(frame.getAttribute("height")),
      };
    });
    const overview = section.dataset.graph === "overview";
    let view = { x: 0, y: 0, scale: 1 };
    let pinned = null;

    function show() {
      const { clientWidth, clientHeight } = svg;
      svg.setAttribute("viewBox", `${view.x} ${view.y} ${clientWidth / view.scale} ${clientHeight / view.scale}`);
      svg.classList.toggle("far", view.scale < READABLE);
      svg.classList.toggle("farther", view.scale < 0.16);
      name();
    }

    // A name that is too long keeps its end as well: names of one kind often differ there.
    function shorten(whole, room) {
      if (whole.length <= room) return whole;
      const end = Math.floor((Math.max(room, 3) - 1) / 2);
      return whole.slice(0, Math.max(room, 3) - 1 - end) + "…" + whole.slice(-end);
    }

    // Seen from afar, a box has its name alone: as large as it must be to be read, and as much of it as has room.
    let lettering = 0;
    function name() {
      const far = view.scale < READABLE && view.scale >= 0.16;
      const size = far ? Math.min(Math.max(SMALLEST / view.scale, 13), TALLEST) : 0;
      if (Math.abs(size - lettering) < 0.5 && (size > 0) === (lettering > 0)) return;
      lettering = size;
      for (const text of names) {
        const room = Math.floor((text.width - 26) / (size * PER_LETTER));
        text.element.textContent = size > 0 ? shorten(text.whole, room) : text.drawn;
        text.element.style.fontSize = size > 0 ? `${size}px` : "";
        text.element.setAttribute("y", size > 0 ? text.height / 2 + size * 0.35 : text.y);
      }
    }

    function whole() {
      return Math.min(svg.clientWidth / width, svg.clientHeight / height, 1);
    }

    function fit() {
      if (!boxes.size || !svg.clientWidth) return;
      const scale = whole();
      view = { scale, x: (width - svg.clientWidth / scale) / 2, y: (height - svg.clientHeight / scale) / 2 };
      show();
    }

    // Keeps the point of the graph that is under (x, y) of the window where it is.
    function zoom(factor, x, y) {
      const frame = svg.getBoundingClientRect();
      const scale = Math.min(Math.max(view.scale * factor, Math.min(whole(), 0.5) / 2), CLOSEST);
      const left = (x ?? frame.left + frame.width / 2) - frame.left;
      const top = (y ?? frame.top + frame.height / 2) - frame.top;
      view = {
        scale,
        x: view.x + left / view.scale - left / scale,
        y: view.y + top / view.scale - top / scale,
      };
      show();
    }

    function middle(number) {
      const { e, f } = boxes.get(number).transform.baseVal.consolidate().matrix;
      const box = boxes.get(number).firstElementChild.nextElementSibling;
      return { x: e + box.width.baseVal.value / 2, y: f + box.height.baseVal.value / 2 };
    }

    function jump(number) {
      const scale = Math.max(view.scale, Math.min(1, Math.max(svg.clientWidth / 600, READABLE)));
      const { x, y } = middle(number);
      view = { scale, x: x - svg.clientWidth / scale / 2, y: y - svg.clientHeight / scale / 2 };
      show();
    }

    // Everything before and after a node, with the lines between.
    function reach(number) {
      const found = new Set([number]);
      const walked = new Set();
      for (const [near, far] of [["from", "to"], ["to", "from"]]) {
        const seen = new Set([number]);
        const stack = [number];
        while (stack.length) {
          const here = stack.pop();
          for (const entry of beside[near].get(here) ?? []) {
            walked.add(entry);
            if (!seen.has(entry[far])) {
              seen.add(entry[far]);
              stack.push(entry[far]);
            }
          }
        }
        seen.forEach((one) => found.add(one));
      }
      return [found, (entry) => walked.has(entry)];
    }

    function light(found, isLit) {
      svg.classList.toggle("lit", found !== null);
      for (const [number, box] of boxes) box.classList.toggle("on", found !== null && found.has(number));
      for (const entry of lines) entry.line.classList.toggle("on", found !== null && isLit(entry));
    }

    // What stays lit when nothing is hovered: a traced column, or a node that was looked for.
    function pin(found, isLit) {
      pinned = found && [found, isLit];
      light(...(pinned ?? [null]));
    }

    let hovered = null;
    function hover(box) {
      if (box === hovered) return;
      hovered = box;
      if (box) light(...reach(Number(box.dataset.node)));
      else light(...(pinned ?? [null]));
    }

    svg.addEventListener("pointerover", (event) => {
      if (!pointers.size) hover(event.target.closest(".node:not(.out)"));
    });
    svg.addEventListener("pointerleave", () => hover(null));
    // On the section: an SVG that listens for focus would itself become a stop of the Tab key.
    section.addEventListener("focusin", (event) => {
      const box = event.target.closest(".node");
      if (!box || !box.matches(":focus-visible")) return;
      hover(box);
      const frame = svg.getBoundingClientRect();
      const place = box.getBoundingClientRect();
      const outside = place.left < frame.left || place.right > frame.right || place.top < frame.top || place.bottom > frame.bottom;
      if (outside || view.scale < 0.4) jump(Number(box.dataset.node));
    });
    section.addEventListener("focusout", () => hover(null));

    // Dragging with one pointer moves, with two it zooms; a drag is not a click.
    const pointers = new Map();
    let moved = 0;
    const spread = () => {
      const [a, b] = [...pointers.values()];
      return { distance: Math.hypot(a.x - b.x, a.y - b.y), x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
    };
    svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      if (!pointers.size) moved = 0;
      pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    });
    svg.addEventListener("pointermove", (event) => {
      const last = pointers.get(event.pointerId);
      if (!last) return;
      const before = pointers.size === 2 ? spread() : null;
      pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
      moved += Math.abs(event.clientX - last.x) + Math.abs(event.clientY - last.y);
      if (moved < 5) return;
      if (!svg.hasPointerCapture(event.pointerId)) svg.setPointerCapture(event.pointerId);
      svg.classList.add("dragged");
      if (before) {
        const after = spread();
        view.x -= (after.x - before.x) / view.scale;
        view.y -= (after.y - before.y) / view.scale;
        zoom(after.distance / (before.distance || 1), after.x, after.y);
      } else {
        view.x -= (event.clientX - last.x) / view.scale;
        view.y -= (event.clientY - last.y) / view.scale;
        show();
      }
    });
    for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) {
      svg.addEventListener(end, (event) => {
        pointers.delete(event.pointerId);
        svg.classList.remove("dragged");
      });
    }
    svg.addEventListener("dragstart", (event) => event.preventDefault());
    svg.addEventListener("click", (event) => moved >= 5 && event.preventDefault(), true);

    // On pages with a small graph the wheel scrolls the page, unless Ctrl is held or two fingers pinch.
    svg.addEventListener(
      "wheel",
      (event) => {
        if (!overview && !event.ctrlKey) return;
        event.preventDefault();
        const pixels = event.deltaY * (event.deltaMode === 1 ? 16 : 1);
        zoom(Math.exp(-pixels * (event.ctrlKey ? 0.01 : 0.0015)), event.clientX, event.clientY);
      },
      { passive: false },
    );
    section.querySelector(".zoom").addEventListener("click", (event) => {
      const action = event.target.closest("[data-zoom]")?.dataset.zoom;
      if (action === "fit") fit();
      else if (action) zoom(action === "in" ? 1.4 : 1 / 1.4);
    });

    // As tall as the graph needs, within what leaves room for the rest of the page.
    function suit() {
      const tallest = overview ? Math.min(innerHeight * 0.62, 640) : 520;
      const readable = Math.max(Math.min(svg.clientWidth / width, 1), narrow() ? READABLE : 0);
      svg.style.height = `${Math.min(Math.max(height * readable, overview ? 300 : 140), tallest)}px`;
    }

    // A phone shows a part of a small graph that can be read; the whole of it would be dots.
    const narrow = () => svg.clientWidth < 520 && boxes.size <= 60;
    function begin() {
      suit();
      fit();
      if (!narrow() || view.scale >= READABLE) return;
      const start = section.dataset.here;
      if (start !== undefined) return jump(Number(start));
      view = { scale: READABLE, x: 0, y: Math.min(0, (height - svg.clientHeight / READABLE) / 2) };
      show();
    }

    svg.classList.toggle("many", boxes.size > 150);
    if (boxes.size) begin();
    let size = svg.clientWidth;
    new ResizeObserver(() => {
      if (svg.clientWidth === size) return;
      size = svg.clientWidth;
      if (boxes.size) begin();
    }).observe(svg);
    window.addEventListener("beforeprint", fit);
    return { boxes, lines, jump, pin, reach, fit };
  }

  window.penstock.startGraph = startGraph;
  for (const section of document.querySelectorAll("[data-graph=local]")) startGraph(section);
})();
