from __future__ import annotations

from typing import Any

from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType
from lines import answer_jobs


def result(job: dict[str, Any]) -> list[list[float]]:
    TextEmbedding.add_custom_model(
        model=job["folder"],
        pooling=PoolingType.MEAN,
        normalization=True,
        sources=ModelSource(hf=job["folder"]),
        dim=job["size"],
        model_file=job["file"],
    )
    return [
        each.tolist() for each in TextEmbedding(job["folder"], specific_model_path=job["folder"]).embed(job["texts"])
    ]


if __name__ == "__main__":
    answer_jobs(result)
