// A page that is opened as a file may not fetch others: results of a search are then titles, without the lines that were found.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
