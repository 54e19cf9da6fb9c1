"use strict";
// Filters, sorts and pages the table of queries, and keeps what was chosen in the address. Without this script the table
// is simply all there, and an address like #q=ID still leads to its query.
const PAGE = 50;
const PRINTED = 10;
const printsAll = new URLSearchParams(location.search).get("print") === "all";
if (printsAll) document.documentElement.classList.add("print-all");

for (const form of document.querySelectorAll("form.filters")) {
    const table = document.getElementById(form.dataset.table);
    const known = JSON.parse(document.getElementById(form.dataset.rows).textContent);
    const rows = [...table.tBodies].map((body, place) => ({ body, place, ...known.rows[place] }));
    const controls = form.elements;
    const slices = controls.slice ? [...controls.slice.options].slice(1).map((option) => option.value) : [];
    const metrics = controls.metric ? [...controls.metric.options].slice(1).map((option) => option.value) : [];
    const chosen = ["search", "kind", "slice", "metric"].filter((name) => controls[name]);
    const total = rows.length;
    let order = rows;
    let first = 0;
    let size = PAGE;

    const fitting = () => {
        const words = controls.search.value.toLowerCase().split(/\s+/).filter(Boolean);
        const kind = controls.kind ? controls.kind.value : "";
        const slice = controls.slice && controls.slice.value ? slices.indexOf(controls.slice.value) : null;
        const metric = controls.metric && controls.metric.value ? metrics.indexOf(controls.metric.value) : null;
        const onlyMarked = controls.marked ? controls.marked.checked : false;
        return order.filter((row) => {
            row.text ??= words.length ? row.body.textContent.toLowerCase() : undefined;
            return (
                (!kind || (kind === "error" ? row.error : row.kind === kind)) &&
                (slice === null || (row.slices || []).includes(slice)) &&
                (metric === null || (row.moved || []).includes(metric)) &&
                (!onlyMarked || row.marked) &&
                words.every((word) => row.text.includes(word))
            );
        });
    };

    const show = () => {
        const found = fitting();
        if (first >= found.length) first = Math.max(0, Math.floor((found.length - 1) / size) * size);
        const shown = new Set(printsAll ? found : found.slice(first, first + size));
        for (const row of rows) row.body.hidden = !shown.has(row);
        const from = found.length ? first + 1 : 0;
        const to = printsAll ? found.length : Math.min(first + size, found.length);
        const among = found.length === total ? "" : `, of ${total.toLocaleString("en")} in all`;
        controls.count.value = `${from.toLocaleString("en")} to ${to.toLocaleString("en")} of ${found.length.toLocaleString("en")}${among}`;
        controls.back.disabled = first === 0;
        controls.forth.disabled = to >= found.length;
    };

    const remember = () => {
        const said = new URLSearchParams();
        for (const name of chosen) if (controls[name].value) said.set(name, controls[name].value);
        if (controls.marked && controls.marked.checked) said.set("marked", "1");
        if (first) said.set("from", String(first + 1));
        const text = said.toString().replaceAll("+", "%20");
        history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
    };

    const has = (control, value) => control.tagName !== "SELECT" || [...control.options].some((one) => one.value === value);

    const follow = () => {
        const said = new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B"));
        if (![...chosen, "marked", "from", "q"].some((name) => said.has(name))) return;
        for (const name of chosen) {
            const value = said.get(name) || "";
            controls[name].value = has(controls[name], value) ? value : "";
        }
        if (controls.marked) controls.marked.checked = said.has("marked");
        first = Math.max(0, Math.floor((Number(said.get("from") || 1) - 1) / size) * size) || 0;
        const wanted = said.has("q") && document.getElementById(`q=${encodeURIComponent(said.get("q")).replace(/[!'()*]/g, (sign) => "%" + sign.charCodeAt(0).toString(16).toUpperCase())}`);
        const place = wanted ? fitting().findIndex((row) => row.body === wanted) : -1;
        if (place >= 0) first = Math.floor(place / size) * size;
        show();
        if (place >= 0) {
            for (const details of wanted.querySelectorAll("details")) details.open = true;
            wanted.scrollIntoView();
        } else {
            form.scrollIntoView();
        }
    };

    const sort = (column, descending) => {
        const key = (row) => row.sort[column];
        order = [...rows].sort((one, other) => {
            const [a, b] = [key(one), key(other)];
            if (a === b) return one.place - other.place;
            if (a === null || b === null) return a === null ? 1 : -1;
            const way = typeof a === "string" ? a.localeCompare(b, "en") : a - b;
            return descending ? -way : way;
        });
        table.append(...order.map((row) => row.body));
        first = 0;
        show();
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
    const turn = (to) => {
        first = Math.max(0, to);
        show();
        remember();
    };
    for (const event of ["input", "change"]) form.addEventListener(event, () => turn(0));
    controls.back.addEventListener("click", () => turn(first - size));
    controls.forth.addEventListener("click", () => turn(first + size));
    form.addEventListener("submit", (event) => event.preventDefault());
    window.addEventListener("hashchange", follow);
    window.addEventListener("beforeprint", () => {
        size = PRINTED;
        show();
    });
    window.addEventListener("afterprint", () => {
        size = PAGE;
        show();
    });
    form.hidden = false;
    show();
    table.classList.remove("unready");
    follow();
}

// Two runs that are checked in the table of runs lead to their page; where there is none, to the command.
for (const form of document.querySelectorAll("form.choice")) {
    const boxes = [...document.getElementById(form.dataset.table).querySelectorAll("input[type=checkbox]")];
    const pages = JSON.parse(document.getElementById(form.dataset.pairs).textContent);
    const { compare, told } = form.elements;
    const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);

    const chosen = () => {
        // The table begins with the newest run.
        const places = boxes.flatMap((box, place) => (box.checked ? [place] : [])).reverse();
        const runs = places.map((place) => boxes[place].value);
        const address = pages.any
            ? pages.any.replace("{a}", () => encodeURIComponent(runs[0])).replace("{b}", () => encodeURIComponent(runs[1]))
            : pages.known[places.join(" ")];
        return { runs, address };
    };

    const show = () => {
        const n = boxes.filter((box) => box.checked).length;
        compare.disabled = n !== 2;
        told.textContent = n > 2 ? `${n} runs are checked.` : n === 1 ? "One more." : "";
    };

    form.addEventListener("submit", (event) => {
        event.preventDefault();
        const { runs, address } = chosen();
        if (runs.length !== 2) return;
        if (address) {
            location.assign(address);
            return;
        }
        const command = document.createElement("code");
        command.textContent = `eval-pipeline compare ${runs.map(quoted).join(" ")}`;
        told.replaceChildren("There is no page of these two here: ", command);
        getSelection().selectAllChildren(command);
    });
    for (const box of boxes) box.addEventListener("change", show);
    form.hidden = false;
    show();
}
