// The rows of the table of model types that have each word of the search.
document$.subscribe(() => {
  const search = document.querySelector(".models-search");
  if (!search) return;
  const rows = [...document.querySelectorAll(".models tbody tr")];
  const count = document.querySelector(".models-count");
  const show = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
    count.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows`;
  };
  search.addEventListener("input", show);
  show();
});
