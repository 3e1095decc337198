"""Parts that tests share: real components, processes, recorded agent runs."""
