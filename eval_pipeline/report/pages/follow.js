"use strict";
// Fetches the whole page, puts its sections where this one only says that they follow, and runs its script. Where that
// fails, and without this script, the links to the whole page are there.
(async () => {
    const waiting = [...document.querySelectorAll(".follows")];
    try {
        const answer = await fetch(waiting[0].querySelector("a").href);
        if (!answer.ok) throw new Error(answer.statusText);
        const whole = new DOMParser().parseFromString(await answer.text(), "text/html");
        for (const section of waiting.map((one) => one.closest("section"))) section.replaceWith(whole.getElementById(section.id));
        const script = document.createElement("script");
        script.textContent = whole.querySelector("body > script").textContent;
        document.body.append(script);
        document.getElementById(location.hash.slice(1))?.scrollIntoView();
    } catch {
        for (const one of waiting) one.firstChild.textContent = "This could not be fetched: ";
    }
})();
