"use strict";
// Filters and sorts the table of queries. Without this script the table is simply all there.
for (const form of document.querySelectorAll("form.filters")) {
    const table = document.getElementById(form.dataset.table);
    const known = JSON.parse(document.getElementById(form.dataset.rows).textContent);
    const rows = [...table.tBodies].map((body, place) => ({ body, place, ...known.rows[place] }));
    const controls = form.elements;
    const total = rows.length;

    const filter = () => {
        const words = controls.search.value.toLowerCase().split(/\s+/).filter(Boolean);
        const kind = controls.kind.value;
        const onlyMarked = controls.marked ? controls.marked.checked : false;
        let shown = 0;
        for (const row of rows) {
            row.text ??= words.length ? row.body.textContent.toLowerCase() : undefined;
            const fits =
                (!kind || row.kind === kind) &&
                (!onlyMarked || row.marked) &&
                words.every((word) => row.text.includes(word));
            row.body.hidden = !fits;
            shown += fits;
        }
        controls.count.value = `${shown.toLocaleString("en")} of ${total.toLocaleString("en")} shown`;
    };

    const sort = (column, descending) => {
        const key = (row) => row.sort[column];
        const sorted = [...rows].sort((one, other) => {
            const [a, b] = [key(one), key(other)];
            if (a === b) return one.place - other.place;
            if (a === null || b === null) return a === null ? 1 : -1;
            const order = typeof a === "string" ? a.localeCompare(b, "en") : a - b;
            return descending ? -order : order;
        });
        table.append(...sorted.map((row) => row.body));
    };

    [...table.tHead.rows[0].cells].forEach((head, column) => {
        const button = document.createElement("button");
        button.type = "button";
        button.className = "sort";
        button.append(...head.childNodes);
        head.append(button);
        button.addEventListener("click", () => {
            const descending = head.getAttribute("aria-sort") === "ascending";
            for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
            head.setAttribute("aria-sort", descending ? "descending" : "ascending");
            sort(column, descending);
        });
    });
    for (const event of ["input", "change"]) form.addEventListener(event, filter);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.hidden = false;
    filter();
}
