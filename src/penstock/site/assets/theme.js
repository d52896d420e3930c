// Runs before the first paint, so that the page never flashes in the other theme.
(function () {
  "use strict";
  const KEY = "penstock-theme";
  const page = document.documentElement;

  function remembered() {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // Storage may be forbidden, and often is for files opened from disk.
    }
  }

  function current() {
    return page.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  }

  const choice = remembered();
  if (choice === "dark" || choice === "light") page.dataset.theme = choice;

  document.addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme").addEventListener("click", () => {
      page.dataset.theme = current() === "dark" ? "light" : "dark";
      try {
        localStorage.setItem(KEY, page.dataset.theme);
      } catch {
        // The choice then lasts as long as the page.
      }
    });
  });
})();
