from __future__ import annotations

from typing import Any

from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType
from lines import answer_jobs


def result(job: dict[str, Any]) -> list[list[float]]:
    folder, pooled = job["folder"], {"pooling": PoolingType.MEAN, "normalization": True, "dim": job["size"]}
    TextEmbedding.add_custom_model(model=folder, sources=ModelSource(hf=folder), model_file=job["file"], **pooled)
    return [each.tolist() for each in TextEmbedding(folder, specific_model_path=folder).embed(job["texts"])]


if __name__ == "__main__":
    answer_jobs(result)
