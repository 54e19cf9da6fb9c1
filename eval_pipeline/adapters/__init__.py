"""Other people's files become a bundle here.

from_autorag     AutoRAG: questions with their gold, the corpus, results of a node.
from_beir        A BEIR dataset: corpus, queries and qrels in a folder.
from_bundle      Files of the bundle's own form that lie outside of a bundle.
from_deepeval    deepeval: test runs.
from_inspect     Inspect logs, .eval and JSON.
from_kebab       A knowledge base's own database, and its lines of results.
from_langfuse    Langfuse: the export to blob storage.
from_langsmith   LangSmith: experiment results.
from_llamaindex  LlamaIndex: retrieval evaluations and batches.
from_mlflow      MLflow: the table of an evaluation, and traces.
from_otlp        OpenTelemetry traces as OTLP/JSON.
from_phoenix     Phoenix: spans and experiments.
from_promptfoo   promptfoo: results as JSON or JSON Lines.
from_qrels       Relevance labels of TREC, BEIR and ranx.
from_ragas       ragas: datasets and results.
from_ranx        ranx and BEIR runs.
from_table       Somebody's own rows, by the usual names of their fields.
from_trec        TREC runs.
mapped_rows      Somebody's own rows as results of the contract, through a mapping.
mapping          mapping.toml: which fields of somebody's own rows mean what; every mistake in it is named.
proposal         What `init` writes: a mapping guessed from a file's first rows, with comments for its editor.
tables           Somebody's own file as rows: JSON Lines, one JSON document, CSV and the like, Parquet; also packed.
taking           Which tool a file comes from, by its content.
tool             The one interface of all adapters: a tool recognises its files and reads them piece by piece.
writing          What adapters read, written as a bundle.
"""
